// Global memory and what the sanitizer found. Device memory is host memory at its own address.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ptx {

struct Allocation {
  uint64_t base, bytes;
  std::string name;
  std::vector<uint8_t> written;  // a bit for each byte; empty: all of it is
};

struct Finding {
  std::string kind, kernel, instruction;
  int line;
  uint32_t thread[3], block[3];
  std::string buffer, detail;
  uint64_t times = 1;
};

class Device {
 public:
  bool sanitize = true;

  void* Allocate(uint64_t bytes);  // null where there is no memory left
  void Free(void* memory);         // what Allocate returned
  void Add(uint64_t base, uint64_t bytes, const std::string& name, bool written);
  void Remove(uint64_t base);
  // The allocation that an address lies in, or null.
  Allocation* Find(uint64_t address);
  // "buffer 3 (4096 bytes), byte 4100", or how far the nearest one is.
  std::string Describe(uint64_t address);
  void Wrote(uint64_t address, uint64_t bytes);  // the host did
  void Report(const Finding& finding);           // those of one kind at one instruction are counted
  const std::vector<Finding>& findings() const { return findings_; }
  void Forget() { findings_.clear(); }

 private:
  std::map<uint64_t, Allocation> allocations_;
  std::vector<Finding> findings_;
  uint64_t made_ = 0;
};

inline void MarkWritten(Allocation* allocation, uint64_t address, uint64_t bytes) {
  if (allocation->written.empty()) return;
  const uint64_t first = address - allocation->base;
  for (uint64_t at = first; at < first + bytes;) {
    if (at % 8 == 0 && first + bytes - at >= 8) {
      allocation->written[at / 8] = 0xff;
      at += 8;
    } else {
      allocation->written[at / 8] |= static_cast<uint8_t>(1 << at % 8);
      ++at;
    }
  }
}

inline bool IsWritten(const Allocation& allocation, uint64_t address, uint64_t bytes) {
  if (allocation.written.empty()) return true;
  const uint64_t first = address - allocation.base;
  for (uint64_t at = first; at < first + bytes;) {
    if (at % 8 == 0 && first + bytes - at >= 8) {
      if (allocation.written[at / 8] != 0xff) return false;
      at += 8;
    } else {
      if (!(allocation.written[at / 8] >> at % 8 & 1)) return false;
      ++at;
    }
  }
  return true;
}

}  // namespace ptx
