// What was executed and found, as JSON.
#pragma once
#include <string>
#include <vector>

#include "machine.h"

namespace ptx {

struct Launched {
  std::string kernel;
  Extents grid, block;
  uint64_t shared;
  Counters counters;
};

std::string ReportText(const std::vector<Launched>& launches, const std::vector<Finding>& findings);

}  // namespace ptx
