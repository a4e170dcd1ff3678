// Crews: threads that share the parallel loops of one call. A crew serves one caller at a time, any
// caller; so threads are as many as the calls that run side by side need, however many threads
// call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tvm_sparse {

// TVM's interface between compiled loops and threads: tvm/runtime/c_backend_api.h.
struct Environment {
  void* barrier;  // null: no kernel of ours has one
  int32_t tasks;
};
using Body = int (*)(int task, Environment* environment, void* data);

// Share the loops of the calling thread's next calls by `count` threads, itself among them. 0, as
// in the beginning: TVM_NUM_THREADS, else OMP_NUM_THREADS, else all physical cores of this process.
// Returns what it was.
int use_threads(int count);

// By how many threads a call of this thread is shared while no other call runs.
int threads_used();

// Run a loop in the calling thread: 0, or -1 with an error raised.
int run_alone(Body body, void* data, int tasks);

class Crew {
 public:
  // Take a crew for the calling thread. It is smaller than asked for where other calls have taken
  // twice as many threads as there are cores, or where the system has no thread left.
  static Crew* take();

  // Let other callers have it.
  void give_back();

  // Share a loop; 0 tasks are as many as there are members. An error is left raised, as TVM has it.
  int run(Body body, void* data, int tasks);

 private:
  friend class Crews;
  static constexpr size_t kApart = 128;  // bytes; caches fetch lines of 64 in pairs

  explicit Crew(int wanted);
  void work(int member);
  bool begins(uint64_t last);
  bool claim(int member, uint64_t loop);
  void share(int member);
  void keep_error();
  int raise();

  // What a loop begins with lies together: one line of the cache goes to each member.
  alignas(kApart) std::atomic<uint64_t> loop_{0};  // its number
  Body body_ = nullptr;
  void* data_ = nullptr;
  Environment environment_{nullptr, 0};
  std::atomic<int> spins_{0};
  std::atomic<bool> lent_{false};
  alignas(kApart) std::atomic<int> busy_{0};  // members that have not finished the loop
  std::atomic<bool> failed_{false};
  std::atomic<void*> error_{nullptr};
  std::atomic<int> asleep_{0};
  std::mutex mutex_;
  std::condition_variable wakes_;
  // The last loop of each member that somebody has begun: the member itself, or the caller for it.
  struct alignas(kApart) Claimed {
    std::atomic<uint64_t> loop{0};
  };
  std::unique_ptr<Claimed[]> claimed_;
  const int wanted_;
  int size_ = 1;
};

}  // namespace tvm_sparse
