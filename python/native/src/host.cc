#include "host.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "error.h"
#include "files.h"

namespace tvm_sparse {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The folders of the control groups that this process is in, the innermost first.
std::vector<std::string> groups() {
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> found;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    bool two = names == ",,";
    if (!two && names.find(",cpu,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    for (size_t end = path.size(); end != std::string::npos && end;
         end = path.rfind('/', end - 1)) {
      found.push_back(root + (two ? "" : "/cpu") + path.substr(0, end));
    }
  }
  found.push_back(root);
  found.push_back(root + "/cpu");
  return found;
}

// Whole processors that the control groups grant; a huge number without a limit.
int cpu_quota() {
  long least = 1 << 30;
  for (const std::string& group : groups()) {
    std::string two = first_line(group + "/cpu.max");
    std::string one =
        first_line(group + "/cpu.cfs_quota_us") + " " + first_line(group + "/cpu.cfs_period_us");
    for (const std::string& text : {two, one}) {
      std::istringstream words(text);
      long quota = 0, period = 0;
      if (words >> quota >> period && quota > 0 && period > 0) {
        least = std::min(least, std::max(1L, (quota + period - 1) / period));
      }
    }
  }
  return static_cast<int>(least);
}

}  // namespace

std::string machine() {
  utsname name{};
  uname(&name);
  return name.machine;
}

#if defined(__aarch64__)

// From the kernel itself: an emulator of user programs shows the flags of its own machine in /proc.
std::set<std::string> cpu_features(const std::string&) {
  static const std::pair<unsigned long, const char*> first[] = {
      {HWCAP_ASIMD, "asimd"},     {HWCAP_ASIMDHP, "asimdhp"}, {HWCAP_ASIMDRDM, "asimdrdm"},
      {HWCAP_ASIMDDP, "asimddp"}, {HWCAP_FCMA, "fcma"},       {HWCAP_ASIMDFHM, "asimdfhm"},
      {HWCAP_ATOMICS, "atomics"}, {HWCAP_SVE, "sve"}};
  static const std::pair<unsigned long, const char*> second[] = {
      {HWCAP2_I8MM, "i8mm"}, {HWCAP2_BF16, "bf16"}, {HWCAP2_SVE2, "sve2"}};
  std::set<std::string> result;
  for (auto [bit, name] : first) {
    if (getauxval(AT_HWCAP) & bit) result.insert(name);
  }
  for (auto [bit, name] : second) {
    if (getauxval(AT_HWCAP2) & bit) result.insert(name);
  }
  return result;
}

#else

namespace {

// Asks Linux for the registers of AMX, for all threads (Documentation/arch/x86/xstate.rst).
bool tiles_allowed() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestState = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

std::set<std::string> cpu_features(const std::string& path) {
  std::ifstream file(path);
  std::set<std::string> common;
  bool first = true;
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(':');
    std::string key = line.substr(0, colon);
    key.erase(key.find_last_not_of(" \t") + 1);
    if (colon == std::string::npos || (key != "flags" && key != "Features")) continue;
    std::istringstream words(line.substr(colon + 1));
    std::set<std::string> flags{std::istream_iterator<std::string>(words), {}}, both;
    std::set_intersection(flags.begin(), flags.end(), common.begin(), common.end(),
                          std::inserter(both, both.end()));
    common = first ? flags : both;
    first = false;
  }
  if (common.count("amx_tile") && !tiles_allowed()) {
    for (auto it = common.begin(); it != common.end();) {
      it = it->rfind("amx_", 0) == 0 ? common.erase(it) : std::next(it);
    }
  }
  return common;
}

#endif

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings = first_line(topology + "core_cpus_list");
    if (siblings.empty()) siblings = first_line(topology + "thread_siblings_list");
    cores.insert(siblings.empty() ? "cpu" + std::to_string(cpu) : siblings);
  }
  return std::max(1, std::min(static_cast<int>(cores.size()), cpu_quota()));
}

std::string wheel_version(const std::string& path, const std::string& record,
                          const std::string& built_for) {
  std::string folder = path;
  for (int level = 0; level < 3; ++level) folder.erase(std::min(folder.rfind('/'), folder.size()));
  const std::string begin = record + "-", end = ".dist-info";
  if (folder.empty() || !exists(folder)) return built_for;
  for (const std::string& name : names_in(folder)) {
    if (name.size() > begin.size() + end.size() && name.compare(0, begin.size(), begin) == 0 &&
        name.compare(name.size() - end.size(), end.size(), end) == 0) {
      return name.substr(begin.size(), name.size() - begin.size() - end.size());
    }
  }
  return built_for;
}

}  // namespace tvm_sparse
