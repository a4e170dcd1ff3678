#include "counters.h"

#include <algorithm>

namespace ptx {
namespace {

constexpr int kSector = 32, kBanks = 32, kWord = 4;

// Passes that lanes [first, last) take: the most different words in one bank.
int PassesOf(const uint64_t* address, int bytes, Mask mask, int first, int last) {
  uint64_t words[kBanks][kLanes];
  int used[kBanks] = {}, most = 0;
  for (int lane = first; lane < last; ++lane) {
    if (!(mask >> lane & 1)) continue;
    for (uint64_t word = address[lane] / kWord; word <= (address[lane] + bytes - 1) / kWord;
         ++word) {
      const int bank = static_cast<int>(word % kBanks);
      if (std::find(words[bank], words[bank] + used[bank], word) == words[bank] + used[bank]) {
        words[bank][used[bank]++] = word;
        most = std::max(most, used[bank]);
      }
    }
  }
  return most;
}

}  // namespace

int Sectors(const uint64_t* address, int bytes, Mask mask) {
  uint64_t found[2 * kLanes];
  int count = 0;
  bool rising = true;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const uint64_t last = (address[lane] + bytes - 1) / kSector;
    for (uint64_t sector = address[lane] / kSector; sector <= last; ++sector) {
      if (count > 0 && found[count - 1] == sector) continue;
      rising = rising && (count == 0 || found[count - 1] < sector);
      found[count++] = sector;
    }
  }
  if (rising) return count;
  std::sort(found, found + count);
  return static_cast<int>(std::unique(found, found + count) - found);
}

int Passes(const uint64_t* address, int bytes, Mask mask, int* least) {
  // Accesses of 8 and 16 bytes a lane are served in halves and quarters of a warp.
  const int lanes = bytes <= kWord ? kLanes : kLanes * kWord / bytes;
  int passes = 0;
  *least = 0;
  for (int first = 0; first < kLanes; first += lanes) {
    const int taken = PassesOf(address, bytes, mask, first, first + lanes);
    passes += taken;
    *least += taken > 0;
  }
  return passes;
}

}  // namespace ptx
