#include "report.h"

#include <sstream>

namespace ptx {
namespace {

std::string Quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return made + '"';
}

std::string Three(uint32_t x, uint32_t y, uint32_t z) {
  return "[" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + "]";
}

std::string ByPipe(const uint64_t* counts) {
  std::string made = "{";
  for (int pipe = 0; pipe < kPipes; ++pipe) {
    made += (pipe ? ", " : "") + Quoted(kPipeNames[pipe]) + ": " + std::to_string(counts[pipe]);
  }
  return made + "}";
}

void Write(std::ostream& out, const Launched& one) {
  const Counters& c = one.counters;
  const std::pair<const char*, uint64_t> numbers[] = {{"load_bytes", c.load_bytes},
                                                      {"load_sectors", c.load_sectors},
                                                      {"store_bytes", c.store_bytes},
                                                      {"store_sectors", c.store_sectors},
                                                      {"copy_bytes", c.copy_bytes},
                                                      {"shared_bytes", c.shared_bytes},
                                                      {"shared_passes", c.shared_passes},
                                                      {"shared_least", c.shared_least},
                                                      {"barriers", c.barriers},
                                                      {"waits", c.waits},
                                                      {"divergent", c.divergent},
                                                      {"multiply_adds", c.multiply_adds},
                                                      {"blocks", c.blocks}};
  out << "{\"kernel\": " << Quoted(one.kernel)
      << ", \"grid\": " << Three(one.grid.x, one.grid.y, one.grid.z)
      << ", \"block\": " << Three(one.block.x, one.block.y, one.block.z)
      << ", \"shared\": " << one.shared << ", \"warps\": " << ByPipe(c.warps)
      << ", \"lanes\": " << ByPipe(c.lanes);
  for (const auto& [name, value] : numbers) out << ", \"" << name << "\": " << value;
  out << "}";
}

void Write(std::ostream& out, const Finding& one) {
  out << "{\"kind\": " << Quoted(one.kind) << ", \"kernel\": " << Quoted(one.kernel)
      << ", \"instruction\": " << Quoted(one.instruction) << ", \"line\": " << one.line
      << ", \"thread\": " << Three(one.thread[0], one.thread[1], one.thread[2])
      << ", \"block\": " << Three(one.block[0], one.block[1], one.block[2])
      << ", \"buffer\": " << Quoted(one.buffer) << ", \"detail\": " << Quoted(one.detail)
      << ", \"times\": " << one.times << "}";
}

template <class T>
void WriteAll(std::ostream& out, const std::vector<T>& all) {
  out << "[";
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) out << ", ";
    Write(out, all[i]);
  }
  out << "]";
}

}  // namespace

std::string ReportText(const std::vector<Launched>& launches,
                       const std::vector<Finding>& findings) {
  std::ostringstream out;
  out << "{\"launches\": ";
  WriteAll(out, launches);
  out << ", \"findings\": ";
  WriteAll(out, findings);
  out << "}";
  return out.str();
}

}  // namespace ptx
