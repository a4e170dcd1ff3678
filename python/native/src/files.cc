#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "error.h"
#include "sha256.h"

namespace tvm_sparse {
namespace {

constexpr size_t kChunk = 1 << 20;

Error unreadable(const std::string& path, int number) {
  return bad_artifact(path, std::string("cannot be read (") + std::strerror(number) + ")",
                      "a complete artifact", "");
}

Error not_regular(const std::string& path) {
  return bad_artifact(path, "not a regular file", "a file, no link",
                      "copy it with cp --dereference");
}

}  // namespace

File::File(const std::string& path) : path_(path) {
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) {
    int number = errno;
    throw number == ELOOP || number == ENXIO ? not_regular(path) : unreadable(path, number);
  }
  struct stat status{};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw not_regular(path);
  }
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

uint64_t File::size() const {
  struct stat status{};
  if (fstat(descriptor_, &status) != 0) throw unreadable(path_, errno);
  return static_cast<uint64_t>(status.st_size);
}

std::string File::read(uint64_t offset, uint64_t size) const {
  std::string result(size, '\0');
  for (uint64_t done = 0; done < size;) {
    ssize_t count =
        pread(descriptor_, &result[done], size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw unreadable(path_, count < 0 ? errno : EIO);
    done += static_cast<uint64_t>(count);
  }
  return result;
}

std::string File::sha256(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) const {
  Sha256 digest;
  std::vector<std::pair<uint64_t, uint64_t>> all{{0, size()}};
  for (auto [begin, end] : ranges.empty() ? all : ranges) {
    for (uint64_t offset = begin; offset < end; offset += kChunk) {
      std::string piece = read(offset, std::min<uint64_t>(kChunk, end - offset));
      digest.update(piece.data(), piece.size());
    }
  }
  return digest.hexadecimal();
}

File File::in_memory() const {
  size_t slash = path_.rfind('/');
  std::string name = path_.substr(slash == std::string::npos ? 0 : slash + 1, 64);
  int descriptor = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) throw unreadable(path_, errno);
  File copy(path_, descriptor);
  for (uint64_t offset = 0, end = size(); offset < end; offset += kChunk) {
    std::string piece = read(offset, std::min<uint64_t>(kChunk, end - offset));
    for (size_t done = 0; done < piece.size();) {
      ssize_t count = write(descriptor, piece.data() + done, piece.size() - done);
      if (count <= 0) throw unreadable(path_, errno);
      done += static_cast<size_t>(count);
    }
  }
  fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return copy;
}

std::string File::loadable_name() const {
  // The loader takes a name that it has seen for the library that it has already, and descriptors'
  // numbers come back: steps that lead nowhere spell a serial number. The Python runtime spells its
  // own under /proc/self.
  static std::atomic<uint64_t> serials{0};
  std::string root = "/proc/thread-self/fd/";
  if (!exists(root + std::to_string(descriptor_))) return path_;
  std::string steps;
  for (uint64_t serial = ++serials; serial; serial /= 2) steps += serial % 2 ? "./" : "/";
  return root + steps + std::to_string(descriptor_);
}

std::vector<std::string> names_in(const std::string& directory) {
  DIR* stream = opendir(directory.c_str());
  if (!stream) throw unreadable(directory, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace tvm_sparse
