// What this machine offers: its architecture, instruction sets and cores, and the wheels of TVM.
#pragma once

#include <set>
#include <string>

namespace tvm_sparse {

// As `uname -m` names it.
std::string machine();

// The flags that every processor of this machine has, as the kernel spells them.
std::set<std::string> cpu_features(const std::string& path = "/proc/cpuinfo");

// Physical cores that this process may run on, at least 1; a quota of the control group counts.
int physical_cores();

// The version of the wheel that holds the library at `path`, read from the record beside it; what
// this runtime was built for where there is none.
std::string wheel_version(const std::string& path, const std::string& record,
                          const std::string& built_for);

}  // namespace tvm_sparse
