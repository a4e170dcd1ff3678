/*!
 * \file tvm_sparse/runtime.hpp
 * \brief A thin C++17 layer over runtime.h: handles that close themselves, errors that are thrown.
 */
#ifndef TVM_SPARSE_RUNTIME_HPP_
#define TVM_SPARSE_RUNTIME_HPP_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tvm_sparse/runtime.h"

namespace tvm_sparse {

/*! \brief What a call of the C interface said when it failed. */
class RuntimeError : public std::runtime_error {
 public:
  RuntimeError(tvm_sparse_status status, const std::string& text)
      : std::runtime_error(text), status(status) {}

  const tvm_sparse_status status;
};

namespace detail {

inline void check(tvm_sparse_status status) {
  if (status != TVM_SPARSE_OK) throw RuntimeError(status, tvm_sparse_last_error());
}

template <typename Handle, void (*close)(Handle*)>
struct Closer {
  void operator()(Handle* handle) const { close(handle); }
};

template <typename Handle, void (*close)(Handle*)>
using Owned = std::unique_ptr<Handle, Closer<Handle, close>>;

}  // namespace detail

/*! \brief A contiguous tensor that somebody else owns, in host memory or on the GPU. */
struct TensorView {
  const void* data;
  std::vector<int64_t> shape;
  std::string dtype = "float32";
  tvm_sparse_device device = TVM_SPARSE_HOST;
};

/*! \brief What one call gave; the tensors live as long as it. */
class Outputs {
 public:
  explicit Outputs(tvm_sparse_outputs* handle) : handle_(handle) {}

  size_t size() const { return tvm_sparse_outputs_count(handle_.get()); }

  const tvm_sparse_tensor& operator[](size_t index) const {
    const tvm_sparse_tensor* tensor = tvm_sparse_outputs_get(handle_.get(), index);
    if (!tensor) throw std::out_of_range("no output " + std::to_string(index));
    return *tensor;
  }

  /*! \brief The elements of an output; T must be what its dtype says. */
  template <typename T>
  const T* data(size_t index) const {
    return static_cast<const T*>((*this)[index].data);
  }

 private:
  detail::Owned<tvm_sparse_outputs, tvm_sparse_outputs_free> handle_;
};

/*! \brief A call whose inputs and outputs stay where they are, on the GPU. */
class Bound {
 public:
  explicit Bound(tvm_sparse_bound* handle) : handle_(handle) {}

  /*! \brief Put it on a cudaStream_t, null for the default one. \throws RuntimeError */
  void operator()(void* stream = nullptr) const {
    detail::check(tvm_sparse_replay(handle_.get(), stream));
  }

  size_t size() const { return tvm_sparse_outputs_count(tvm_sparse_bound_outputs(handle_.get())); }

  /*! \brief An output of every replay. */
  const tvm_sparse_tensor& operator[](size_t index) const {
    auto* tensor = tvm_sparse_outputs_get(tvm_sparse_bound_outputs(handle_.get()), index);
    if (!tensor) throw std::out_of_range("no output " + std::to_string(index));
    return *tensor;
  }

 private:
  detail::Owned<tvm_sparse_bound, tvm_sparse_bound_free> handle_;
};

/*! \brief An opened artifact. One call at a time; threads that run side by side have a clone each.
 */
class Library {
 public:
  /*! \brief Open an artifact. \throws RuntimeError if anything is wrong with it. */
  explicit Library(const std::string& directory,
                   tvm_sparse_options options = tvm_sparse_default_options()) {
    tvm_sparse_library* handle = nullptr;
    detail::check(tvm_sparse_open(directory.c_str(), &options, &handle));
    handle_.reset(handle);
  }

  /*! \brief A second session of the program that shares code and weights. */
  Library clone() const {
    tvm_sparse_library* handle = nullptr;
    detail::check(tvm_sparse_clone(handle_.get(), &handle));
    return Library(handle);
  }

  /*! \brief The same, whose calls are shared by so many threads. */
  Library clone(int threads) const {
    tvm_sparse_library* handle = nullptr;
    detail::check(tvm_sparse_clone_with_threads(handle_.get(), threads, &handle));
    return Library(handle);
  }

  /*!
   * \brief Run once; programs for a GPU on a cudaStream_t, null for the default one.
   * \throws RuntimeError if an input does not fit or the program fails.
   */
  Outputs operator()(const std::vector<TensorView>& inputs, void* stream = nullptr) {
    std::vector<tvm_sparse_tensor> tensors = plain(inputs);
    tvm_sparse_outputs* outputs = nullptr;
    detail::check(
        tvm_sparse_run_on(handle_.get(), stream, tensors.data(), tensors.size(), &outputs));
    return Outputs(outputs);
  }

  /*!
   * \brief Bind to inputs on the GPU that stay where they are: one CUDA graph, replayed.
   * \throws RuntimeError if an input would be copied, or the program cannot be bound.
   */
  Bound bind(const std::vector<TensorView>& inputs, void* stream = nullptr) {
    std::vector<tvm_sparse_tensor> tensors = plain(inputs);
    tvm_sparse_bound* bound = nullptr;
    detail::check(tvm_sparse_bind(handle_.get(), stream, tensors.data(), tensors.size(), &bound));
    return Bound(bound);
  }

  /*!
   * \brief Run some times, after once that warms up, and write when each kernel ran to `path`, for
   * ui.perfetto.dev.
   * \throws RuntimeError as a call, or if the file cannot be written.
   */
  void trace(const std::vector<TensorView>& inputs, const std::string& path, int calls = 3) const {
    std::vector<tvm_sparse_tensor> tensors = plain(inputs);
    detail::check(
        tvm_sparse_trace(handle_.get(), tensors.data(), tensors.size(), calls, path.c_str()));
  }

  size_t num_inputs() const { return tvm_sparse_num_inputs(handle_.get()); }
  size_t num_outputs() const { return tvm_sparse_num_outputs(handle_.get()); }
  /*! \brief Description of an input; null if there are not as many. */
  const tvm_sparse_spec* input(size_t i) const { return tvm_sparse_input(handle_.get(), i); }
  /*! \brief Description of an output; null if there are not as many. */
  const tvm_sparse_spec* output(size_t i) const { return tvm_sparse_output(handle_.get(), i); }

 private:
  static std::vector<tvm_sparse_tensor> plain(const std::vector<TensorView>& inputs) {
    std::vector<tvm_sparse_tensor> tensors;
    for (const TensorView& input : inputs) {
      tensors.push_back({input.dtype.c_str(), static_cast<int32_t>(input.shape.size()),
                         input.shape.data(), input.data, input.device});
    }
    return tensors;
  }

  explicit Library(tvm_sparse_library* handle) : handle_(handle) {}

  detail::Owned<tvm_sparse_library, tvm_sparse_close> handle_;
};

}  // namespace tvm_sparse

#endif  // TVM_SPARSE_RUNTIME_HPP_
