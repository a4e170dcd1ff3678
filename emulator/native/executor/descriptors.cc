// Descriptors of matrices in shared memory: rows of 8 x 16 bytes, in the layouts of the PTX ISA.
#include "swizzle.h"
#include "warpgroup.h"

namespace ptx {
namespace {

constexpr int kUnitBytes = 16, kUnitRows = 8;

uint64_t Field(uint64_t descriptor, int first) { return (descriptor >> first & 0x3fff) << 4; }

}  // namespace

Matrix::Matrix(uint64_t descriptor, int bytes, bool turned)
    : start_(Field(descriptor, 0)),
      leading_(Field(descriptor, 16)),
      stride_(Field(descriptor, 32)),
      // Modes 1 to 3 are patterns of 128, 64 and 32 bytes.
      power_(static_cast<int>(4 - (descriptor >> 62)) % 4),
      unit_(kUnitBytes / bytes),
      bytes_(bytes),
      turned_(turned) {
  if (descriptor >> 49 & 7)
    throw std::runtime_error("a matrix descriptor with a base offset is not supported");
}

uint64_t Matrix::At(int row, int column) const {
  const int across = turned_ ? column : row, along = turned_ ? row : column;
  // A line is what lies together: 16 bytes, or the width of the pattern.
  const int units = 1 << power_, unit = along / unit_, line = kUnitBytes * units;
  const uint64_t lines = static_cast<uint64_t>(across % kUnitRows) * line;
  const uint64_t within = static_cast<uint64_t>(unit % units) * kUnitBytes + along % unit_ * bytes_;
  const auto group = static_cast<uint64_t>(across / kUnitRows),
             next = static_cast<uint64_t>(unit / units);
  // Without a pattern, the strides of turned matrices change their meaning.
  const bool swapped = turned_ && power_ == 0;
  const uint64_t far =
      swapped ? group * leading_ + next * stride_ : group * stride_ + next * leading_;
  return Swizzled(start_ + lines + within + far, power_);
}

}  // namespace ptx
