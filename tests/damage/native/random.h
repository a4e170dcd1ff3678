// Chance for fuzzing: reproducible, the same everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435769u + 1) {}

  // Less than `limit`.
  uint64_t below(uint64_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % limit;
  }

  template <typename Item>
  const Item& of(const std::vector<Item>& items) {
    return items[below(items.size())];
  }

 private:
  uint64_t state_;
};

// `bytes` with up to four of: a bit turned, a piece cut out, doubled, or replaced by one of
// `words`.
inline std::string damaged(std::string bytes, const std::vector<std::string>& words,
                           Random& random) {
  for (uint64_t times = random.below(4) + 1; times; --times) {
    size_t at = random.below(bytes.size() + 1), length = random.below(16);
    switch (random.below(5)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.below(8));
        break;
      case 1: bytes.erase(at, length); break;
      case 2: bytes.insert(at, bytes.substr(at, length)); break;
      case 3: bytes.replace(at, length, random.of(words)); break;
      default: bytes.insert(at, random.of(words));
    }
  }
  return bytes;
}
