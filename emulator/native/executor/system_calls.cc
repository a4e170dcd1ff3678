// What CUDA's own functions do that have no body in a module: printf and assert.
#include <cstdio>

#include "lanes.h"
#include "memory.h"

namespace ptx {
namespace {

// Argument `k` of a call is the offset of a variable in local memory.
template <class T>
T Given(const Warp& w, const Inst& i, int k, int lane) {
  const uint64_t at = *w.At<uint64_t>(i.args[k]) + lane * w.block->launch->kernel->local_bytes;
  T value;
  std::memcpy(&value, w.local.data() + at, sizeof value);
  return value;
}

// The bytes from an address on to the end of what it lies in; none if that is nothing.
std::pair<const char*, uint64_t> Rest(const Warp& w, uint64_t address, int lane) {
  const Kernel& kernel = *w.block->launch->kernel;
  if (address >= kLocalWindow && address < kSharedWindow) {
    const uint64_t at = address - kLocalWindow;
    if (at >= kernel.local_bytes) return {nullptr, 0};
    return {w.local.data() + lane * kernel.local_bytes + at, kernel.local_bytes - at};
  }
  const Allocation* found = w.block->launch->device->Find(address);
  if (found == nullptr) return {nullptr, 0};
  return {reinterpret_cast<const char*>(address), found->base + found->bytes - address};
}

std::string Text(const Warp& w, uint64_t address, int lane) {
  const auto [begin, bytes] = Rest(w, address, lane);
  return begin == nullptr ? "(no text)" : std::string(begin, strnlen(begin, bytes));
}

// The values behind a format, each aligned to its own size.
class Values {
 public:
  Values(const char* begin, uint64_t bytes) : begin_(begin), bytes_(bytes) {}
  template <class T>
  T Next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value{};
    if (at_ + sizeof value <= bytes_) std::memcpy(&value, begin_ + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  const char* begin_;
  uint64_t bytes_, at_ = 0;
};

// One conversion, "%5.2f", with its value.
std::string Converted(const Warp& w, int lane, std::string flags, char kind, bool wide,
                      Values* values) {
  char text[400];
  const auto print = [&](const char* size, auto value) {
    std::snprintf(text, sizeof text, (flags + size + kind).c_str(), value);
    return std::string(text);
  };
  switch (kind) {
    case 'd':
    case 'i':
      return wide ? print("ll", static_cast<long long>(values->Next<int64_t>()))
                  : print("", values->Next<int32_t>());
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return wide ? print("ll", static_cast<unsigned long long>(values->Next<uint64_t>()))
                  : print("", values->Next<uint32_t>());
    case 'c': return print("", values->Next<int32_t>());
    case 'p': return print("", reinterpret_cast<void*>(values->Next<uint64_t>()));
    case 's': return print("", Text(w, values->Next<uint64_t>(), lane).c_str());
    default: return print("", values->Next<double>());  // e, f, g, a
  }
}

std::string Formatted(const Warp& w, const std::string& format, int lane, Values values) {
  std::string made;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      made += format[at++];
      continue;
    }
    const size_t begin = at++;
    while (at < format.size() && std::strchr("-+ #0123456789.", format[at])) ++at;
    const std::string flags = format.substr(begin, at - begin);
    int longs = 0;
    while (at < format.size() && std::strchr("hlzjt", format[at])) longs += format[at++] != 'h';
    if (at == format.size()) break;
    const char kind = format[at++];
    if (kind == '%') made += kind;
    else if (std::strchr("diuxXocpsaAeEfFgG", kind))
      made += Converted(w, lane, flags, kind, longs > 0, &values);
  }
  return made;
}

// Arguments: format, values. The number that printf returns stays what it was.
void Print(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const auto [begin, bytes] = Rest(w, Given<uint64_t>(w, i, 1, l), l);
    const std::string format = Text(w, Given<uint64_t>(w, i, 0, l), l);
    std::fputs(Formatted(w, format, l, {begin, bytes}).c_str(), stdout);
  }
  std::fflush(stdout);
}

// Arguments: expression, file, line, function, bytes of a character.
void Assert(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const std::string where = Text(w, Given<uint64_t>(w, i, 1, l), l) + ", line " +
                              std::to_string(Given<uint32_t>(w, i, 2, l));
    Report(w, i, l, "assertion", "", Text(w, Given<uint64_t>(w, i, 0, l), l) + " (" + where + ")");
  }
}

template <Run kRun>
void DecodeCall(Decoder& d) {
  for (size_t i = 0; i < d.operands(); ++i) {
    const Variable* own = d.builder.FindVariable(d.operand(i).name);
    if (own == nullptr || own->space != Space::kLocal) d.Unknown();
    d.Push(d.builder.Constant(own->offset, 8));
  }
  d.inst.run = kRun;
  d.inst.pipe = kControl;
}

}  // namespace

const Table& SystemCalls() {
  static const Table table{{"vprintf", DecodeCall<Print>}, {"__assertfail", DecodeCall<Assert>}};
  return table;
}

}  // namespace ptx
