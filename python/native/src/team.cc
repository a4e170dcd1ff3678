// TVM's pool takes up its workers anew for each parallel loop: 1.6 us on two cores of a Zen 5. A
// small network has 50 to 120 loops of 1 to 40 us. Here a crew is taken once a call. Its members
// then wait for one loop after another, each of which costs 0.2 us.
#include "team.h"

#include <dlfcn.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "apart.h"
#include "crew.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kGathering = std::chrono::microseconds(6);  // no crew is worth less
constexpr Clock::duration kAlone = std::chrono::microseconds(50);     // at most that long
constexpr int kTrial = 64;  // so many calls from one trial of the other way to the next

using Launch = int (*)(Body body, void* data, int tasks);

Launch launch_in_pool = nullptr;

// A call of a program of ours, in the caller's thread.
struct Call {
  Clock::time_point alone_until;  // zero: shared from the beginning
  int64_t loops = 0;
  Crew* crew = nullptr;
  Call* outer;

  explicit Call(Clock::time_point alone_until) : alone_until(alone_until), outer(current) {
    current = this;
  }
  ~Call() {
    if (crew) crew->give_back();
    current = outer;
  }

  int run(Body body, void* data, int tasks) {
    ++loops;
    if (!crew) {
      if (Clock::now() < alone_until) return run_alone(body, data, tasks);
      crew = Crew::take();
    }
    return crew->run(body, data, tasks);
  }

  static thread_local Call* current;
};

thread_local Call* Call::current = nullptr;

// What compiled loops call. Modules that are none of ours have TVM's own pool.
int launch(Body body, void* data, int tasks) {
  return Call::current ? Call::current->run(body, data, tasks) : launch_in_pool(body, data, tasks);
}

// A function that learns from its calls whether threads shall share the loops of the next one.
class Together {
 public:
  explicit Together(ffi::Function function) : function_(std::move(function)) {}

  void operator()(const ffi::AnyView* arguments, int32_t count, ffi::Any* result) {
    if (Call::current) return function_.CallPacked(arguments, count, result);
    bool trial = ++calls_ % kTrial == 0 && alone_ >= kGathering;
    bool alone = (alone_ < shared_) != trial;
    auto begin = Clock::now();
    {
      Call call(alone ? begin + kAlone : Clock::time_point{});
      function_.CallPacked(arguments, count, result);
      if (alone && call.crew) begin = {};  // it took too long
    }
    (alone ? alone_ : shared_) = Clock::now() - begin;
  }

 private:
  ffi::Function function_;
  uint32_t calls_ = 0;
  Clock::duration alone_{0};  // what the last such call took
  Clock::duration shared_ = kGathering;
};

}  // namespace

void join_loops(void* tvm) {
  launch_in_pool = reinterpret_cast<Launch>(dlsym(tvm, "TVMBackendParallelLaunch"));
  TVMFFIEnvModRegisterContextSymbol("__TVMBackendParallelLaunch", reinterpret_cast<void*>(&launch));
}

ffi::Function together(ffi::Function function) {
  return ffi::Function::FromPacked(Together(apart(std::move(function))));
}

}  // namespace tvm_sparse
