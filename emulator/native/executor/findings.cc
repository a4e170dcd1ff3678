// Errors that the sanitizer saw, with who did it where.
#include "machine.h"

namespace ptx {

void Report(Warp& warp, const Inst& inst, int lane, const char* kind, const std::string& buffer,
            const std::string& detail) {
  const Launch& launch = *warp.block->launch;
  if (!launch.device->sanitize) return;
  const uint32_t thread = static_cast<uint32_t>(warp.block->Thread(warp, lane));
  const Extents& size = launch.block;
  const Extents& at = warp.block->at;
  launch.device->Report({kind,
                         launch.kernel->name,
                         launch.module->lines[inst.line],
                         inst.line,
                         {thread % size.x, thread / size.x % size.y, thread / size.x / size.y},
                         {at.x, at.y, at.z},
                         buffer,
                         detail});
}

void ExpectWhole(Warp& warp, const Inst& inst, Mask mask) {
  if (mask == kAll) return;
  Report(warp, inst, __builtin_ctz(~mask), "warp divergence", "",
         "all lanes of a warp must execute this instruction together");
}

}  // namespace ptx
