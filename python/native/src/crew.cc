#include "crew.h"

#include <pthread.h>
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "host.h"

namespace tvm_sparse {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpins = 1000;   // turns of waiting before others may run: some 20 us
constexpr int kFewSpins = 30;  // where others do run: a member of the crew is late
constexpr int kTurns = 16;     // between two looks at the clock
constexpr Clock::duration kAwake = std::chrono::microseconds(200);  // after a call, then it sleeps
constexpr int kMostThreads = 4096;

thread_local int wish = 0;
thread_local bool sharing = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Whether `condition` comes true within so many turns, in which no other thread may run.
template <typename Condition>
bool spin(Condition condition, int spins) {
  for (; !condition(); --spins) {
    if (spins <= 0) return false;
    pause();
  }
  return true;
}

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  int value = text ? std::atoi(text) : 0;
  return 1 <= value && value <= kMostThreads ? value : 0;
}

int cores() {
  static const int found = physical_cores();
  return found;
}

}  // namespace

// The crews of this process. They are never destroyed: their threads may outlive its statics.
class Crews {
 public:
  static Crews& all() {
    static Crews* const crews = new Crews;
    return *crews;
  }

  Crew* take(int wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    while (wanted > 1 && members_ > 0 && members_ + wanted > 2 * cores()) wanted /= 2;
    members_ += wanted;
    std::vector<Crew*>& free = free_[wanted];
    if (free.empty()) return new Crew(wanted);
    Crew* crew = free.back();
    free.pop_back();
    return crew;
  }

  void give_back(Crew* crew) {
    std::lock_guard<std::mutex> lock(mutex_);
    members_ -= crew->wanted_;
    free_[crew->wanted_].push_back(crew);
  }

 private:
  // A forked process has none of the threads, and makes crews of its own.
  Crews() {
    pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                   [] {
                     all().free_.clear();
                     all().members_ = 0;
                     all().mutex_.unlock();
                   });
  }

  std::mutex mutex_;
  std::map<int, std::vector<Crew*>> free_;  // by their size
  int members_ = 0;                         // of those that are lent
};

int use_threads(int count) { return std::exchange(wish, std::clamp(count, 0, kMostThreads)); }

int threads_used() {
  if (wish) return wish;
  for (const char* variable : {"TVM_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (int number = number_in(variable)) return number;
  }
  return cores();
}

int run_alone(Body body, void* data, int tasks) {
  Environment environment{nullptr, tasks ? tasks : 1};
  for (int task = 0; task < environment.tasks; ++task) {
    if (int error = body(task, &environment, data)) return error;
  }
  return 0;
}

Crew* Crew::take() {
  Crew* crew = Crews::all().take(threads_used());
  crew->spins_.store(kSpins, std::memory_order_relaxed);
  crew->lent_.store(true);
  if (crew->asleep_.load()) {
    std::lock_guard<std::mutex> lock(crew->mutex_);
    crew->wakes_.notify_all();
  }
  return crew;
}

void Crew::give_back() {
  lent_.store(false, std::memory_order_relaxed);
  Crews::all().give_back(this);
}

Crew::Crew(int wanted) : claimed_(new Claimed[wanted]), wanted_(wanted) {
  sigset_t all, before;  // signals are the callers'
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (; size_ < wanted; ++size_) std::thread(&Crew::work, this, size_).detach();
  } catch (const std::system_error&) {  // what there is must do
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

int Crew::run(Body body, void* data, int tasks) {
  if (sharing) return run_alone(body, data, tasks);  // a loop inside a loop
  body_ = body;
  data_ = data;
  environment_.tasks = tasks ? tasks : size_;
  busy_.store(size_ - 1, std::memory_order_relaxed);
  uint64_t loop = loop_.fetch_add(1) + 1;
  share(0);
  auto done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
  if (!spin(done, kFewSpins)) {
    // Who has not begun by now is asleep, or another program has the core.
    for (int member = 1; member < size_; ++member) {
      if (!claim(member, loop)) continue;
      share(member);
      busy_.fetch_sub(1, std::memory_order_release);
    }
    if (!spin(done, spins_.load(std::memory_order_relaxed))) {
      spins_.store(kFewSpins, std::memory_order_relaxed);
      while (!done()) std::this_thread::yield();
    }
  }
  return failed_.exchange(false, std::memory_order_relaxed) ? raise() : 0;
}

void Crew::work(int member) {
  for (uint64_t last = 0;;) {
    if (!begins(last)) continue;
    last = loop_.load(std::memory_order_acquire);
    if (!claim(member, last)) continue;
    share(member);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

// Wait for a loop after `last`, asleep where the last call is a while ago.
bool Crew::begins(uint64_t last) {
  auto begun = [this, last] { return loop_.load(std::memory_order_acquire) != last; };
  if (spin(begun, spins_.load(std::memory_order_relaxed))) return true;
  Clock::time_point end{};
  for (int turn = 0;; ++turn) {
    if (begun()) return true;
    if (lent_.load(std::memory_order_relaxed)) {
      end = {};
    } else if (turn % kTurns == 0) {
      auto now = Clock::now();
      if (end == Clock::time_point{}) end = now + kAwake;
      if (now >= end) break;
    }
    std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  asleep_.fetch_add(1);
  wakes_.wait(lock, [this] { return lent_.load(); });
  asleep_.fetch_sub(1);
  return begun();
}

// Begin the share of `member` in `loop`, unless somebody has. All loops before it are over.
bool Crew::claim(int member, uint64_t loop) {
  uint64_t before = loop - 1;
  return claimed_[member].loop.compare_exchange_strong(before, loop, std::memory_order_acq_rel,
                                                       std::memory_order_relaxed);
}

void Crew::share(int member) {
  sharing = true;
  for (int task = member; task < environment_.tasks; task += size_) {
    if (body_(task, &environment_, data_) != 0) keep_error();
  }
  sharing = false;
}

// An error is raised in the thread that met it; the first one goes to the caller's.
void Crew::keep_error() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIObjectHandle none = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error && !error_.compare_exchange_strong(none, error)) TVMFFIObjectDecRef(error);
  failed_.store(true, std::memory_order_relaxed);
}

int Crew::raise() {
  if (TVMFFIObjectHandle error = error_.exchange(nullptr)) {
    TVMFFIErrorSetRaised(error);
    TVMFFIObjectDecRef(error);
  } else {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a parallel loop failed");
  }
  return -1;
}

}  // namespace tvm_sparse
