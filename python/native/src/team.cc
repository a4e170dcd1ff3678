// TVM's pool takes up its workers anew for each parallel loop: 1.6 us on two cores of a Zen 5. A
// small network has 50 to 120 loops of 1 to 40 us. Here the pool is asked once a call. Its workers
// then wait for one loop after another, each of which costs 0.2 us.
#include "team.h"

#include <dlfcn.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr size_t kApart = 128;  // bytes; caches fetch lines of 64 in pairs
constexpr int kSpins = 1000;    // turns of waiting before others may run: some 20 us
constexpr int kFewSpins = 30;   // where others do run: a member of the team is late

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kGathering = std::chrono::microseconds(6);  // no team is worth less
constexpr Clock::duration kAlone = std::chrono::microseconds(50);     // at most that long
constexpr int kTrial = 64;  // so many calls from one trial of the other way to the next

// TVM's interface between compiled loops and threads: tvm/runtime/c_backend_api.h.
struct Environment {
  void* barrier;
  int32_t tasks;
};
using Body = int (*)(int task, Environment* environment, void* data);
using Launch = int (*)(Body body, void* data, int tasks);

Launch launch_in_pool = nullptr;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Wait, in the first turns without letting other threads run; return whether these were enough.
template <typename Condition>
bool wait_for(Condition condition, int spins) {
  for (; spins; --spins) {
    if (condition()) return true;
    pause();
  }
  while (!condition()) std::this_thread::yield();
  return false;
}

class Team {
 public:
  // As the first member: run a loop on all threads. Errors are left raised, as TVM has them.
  int run(Body body, void* data, int tasks) {
    body_ = body;
    data_ = data;
    environment_.tasks = tasks ? tasks : size_;
    busy_.store(size_ - 1, std::memory_order_relaxed);
    number_.fetch_add(1, std::memory_order_release);
    share(0);
    auto done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
    if (!wait_for(done, spins_)) spins_ = kFewSpins;
    return failed_.exchange(false, std::memory_order_relaxed) ? raise() : 0;
  }

  // As the first member: begin, before the first loop.
  void gather(int size) { size_ = size; }

  // As the first member: end, after the last loop.
  void dismiss() {
    body_ = nullptr;
    number_.fetch_add(1, std::memory_order_release);
  }

  // As another member: take part until the end.
  void follow(int member) {
    for (uint64_t last = 0;; ++last) {
      auto begun = [this, last] { return number_.load(std::memory_order_acquire) != last; };
      wait_for(begun, spins_);
      if (!body_) return;
      share(member);
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

 private:
  void share(int member) {
    for (int task = member; task < environment_.tasks; task += size_) {
      if (body_(task, &environment_, data_) != 0) keep_error();
    }
  }

  // An error is raised in the thread that met it; the first one goes to the caller's.
  void keep_error() {
    TVMFFIObjectHandle error = nullptr;
    TVMFFIObjectHandle none = nullptr;
    TVMFFIErrorMoveFromRaised(&error);
    if (error && !error_.compare_exchange_strong(none, error)) TVMFFIObjectDecRef(error);
    failed_.store(true, std::memory_order_relaxed);
  }

  int raise() {
    if (TVMFFIObjectHandle error = error_.exchange(nullptr)) {
      TVMFFIErrorSetRaised(error);
      TVMFFIObjectDecRef(error);
    } else {
      TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a parallel loop failed");
    }
    return -1;
  }

  // What a loop begins with lies together: one line of the cache goes to each worker.
  alignas(kApart) std::atomic<uint64_t> number_{0};
  Body body_ = nullptr;
  void* data_ = nullptr;
  Environment environment_{nullptr, 0};  // no kernel of ours has a barrier
  int size_ = 1;
  std::atomic<int> spins_{kSpins};
  alignas(kApart) std::atomic<int> busy_{0};
  std::atomic<bool> failed_{false};
  std::atomic<TVMFFIObjectHandle> error_{nullptr};
};

thread_local Team* current = nullptr;
thread_local Clock::time_point alone_until{};  // zero: not alone
thread_local int64_t loops = 0;

// Run a loop in the caller's thread.
int run_alone(Body body, void* data, int tasks) {
  Environment environment{nullptr, tasks ? tasks : 1};
  for (int task = 0; task < environment.tasks; ++task) {
    if (int error = body(task, &environment, data)) return error;
  }
  return 0;
}

// What compiled loops call.
int launch(Body body, void* data, int tasks) {
  ++loops;
  if (current) return current->run(body, data, tasks);
  if (alone_until != Clock::time_point{}) {
    if (Clock::now() < alone_until) return run_alone(body, data, tasks);
    alone_until = {};
  }
  return launch_in_pool(body, data, tasks);
}

// A call of a function with a team. Nothing may be thrown through TVM's launch.
struct Call {
  const ffi::Function& function;
  const ffi::AnyView* arguments;
  int32_t count;
  ffi::Any* result;
  Team team{};
  std::exception_ptr failure{};

  void run() {
    launch_in_pool(&Call::enter, this, 0);
    if (failure) std::rethrow_exception(failure);
  }

  void lead(int size) {
    team.gather(size);
    current = &team;
    try {
      function.CallPacked(arguments, count, result);
    } catch (...) {
      failure = std::current_exception();
    }
    current = nullptr;
    team.dismiss();
  }

  static int enter(int member, Environment* environment, void* data) {
    auto* call = static_cast<Call*>(data);
    if (member) {
      call->team.follow(member);
    } else {
      call->lead(environment->tasks);
    }
    return 0;
  }
};

// A function that learns from its calls whether threads shall share the loops of the next one.
class Together {
 public:
  explicit Together(ffi::Function function) : function_(std::move(function)) {}

  void operator()(const ffi::AnyView* arguments, int32_t count, ffi::Any* result) {
    if (current) return function_.CallPacked(arguments, count, result);  // that team's threads wait
    auto begin = Clock::now();
    int64_t before = loops;
    bool trial = ++calls_ % kTrial == 0 && alone_ >= kGathering;
    bool alone = (alone_ < shared_) != trial;
    if (!alone && several_) {
      Call{function_, arguments, count, result}.run();
    } else {
      if (alone) alone_until = begin + kAlone;
      struct Reset {
        ~Reset() { alone_until = {}; }
      } reset;
      function_.CallPacked(arguments, count, result);
      if (alone && alone_until == Clock::time_point{}) begin = {};  // it took too long
    }
    (alone ? alone_ : shared_) = Clock::now() - begin;
    several_ = loops - before > 1;
  }

 private:
  ffi::Function function_;
  uint32_t calls_ = 0;
  Clock::duration alone_{0};  // what the last such call took
  Clock::duration shared_ = kGathering;
  bool several_ = false;
};

}  // namespace

void join_loops(void* tvm) {
  launch_in_pool = reinterpret_cast<Launch>(dlsym(tvm, "TVMBackendParallelLaunch"));
  TVMFFIEnvModRegisterContextSymbol("__TVMBackendParallelLaunch", reinterpret_cast<void*>(&launch));
}

ffi::Function together(ffi::Function function) {
  return ffi::Function::FromPacked(Together(std::move(function)));
}

}  // namespace tvm_sparse
