#include "sha256.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tvm_sparse {
namespace {

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t turned(uint32_t value, int by) { return value >> by | value << (32 - by); }

uint32_t word(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

}  // namespace

void Sha256::block(const uint8_t* data) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = word(data + 4 * i);
  for (int i = 16; i < 64; ++i) {
    uint32_t early = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t late = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + early + w[i - 7] + late;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    uint32_t first =
        h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + kRounds[i] + w[i];
    uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + majority;
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += sums[i];
}

void Sha256::update(const void* data, size_t size) {
  auto* bytes = static_cast<const uint8_t*>(data);
  size_t held = size_ % 64;
  size_ += size;
  if (held) {
    size_t taken = std::min(size, 64 - held);
    std::memcpy(rest_.data() + held, bytes, taken);
    bytes += taken, size -= taken;
    if (held + taken < 64) return;
    block(rest_.data());
  }
  for (; size >= 64; bytes += 64, size -= 64) block(bytes);
  std::memcpy(rest_.data(), bytes, size);
}

std::string Sha256::hexadecimal() {
  uint64_t bits = size_ * 8;
  const uint8_t one = 0x80, zero = 0;
  update(&one, 1);
  while (size_ % 64 != 56) update(&zero, 1);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length, 8);
  std::string result;
  for (uint32_t part : state_) {
    char buffer[9];
    std::snprintf(buffer, sizeof buffer, "%08x", part);
    result += buffer;
  }
  return result;
}

std::string sha256(const std::string& text) {
  Sha256 digest;
  digest.update(text.data(), text.size());
  return digest.hexadecimal();
}

}  // namespace tvm_sparse
