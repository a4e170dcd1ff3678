// tvm_sparse_run: describe, run and time an artifact, without Python.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "npy.h"
#include "tvm_sparse/runtime.hpp"

namespace {

constexpr const char* kUsage =
    "usage: tvm_sparse_run ARTIFACT [--input X.npy]... [--output Y.npy]... [--repeat N]\n"
    "                      [--threads N] [--trace T.json] [--no-verify]\n"
    "       tvm_sparse_run --version\n"
    "Without --input, print what the artifact takes and gives.\n";

// Options that cannot be meant, and why.
struct Wrong {
  std::string why;
};

struct Options {
  std::string artifact, trace;
  std::vector<std::string> inputs, outputs;
  int repeat = 1;
  tvm_sparse_options open = tvm_sparse_default_options();
};

int positive(const std::string& option, const std::string& text) {
  if (text.empty() || text.size() > 8 ||
      text.find_first_not_of("0123456789") != std::string::npos || std::stoi(text) < 1) {
    throw Wrong{option + " takes a number, 1 or more, not '" + text + "'"};
  }
  return std::stoi(text);
}

Options parsed(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    auto next = [&]() -> const std::string& {
      if (++i == words.size()) throw Wrong{word + " needs a value"};
      return words[i];
    };
    if (word == "--input") {
      options.inputs.push_back(next());
    } else if (word == "--output") {
      options.outputs.push_back(next());
    } else if (word == "--repeat") {
      options.repeat = positive(word, next());
    } else if (word == "--threads") {
      options.open.threads = positive(word, next());
    } else if (word == "--trace") {
      options.trace = next();
    } else if (word == "--no-verify") {
      options.open.verify = 0;
    } else if (word.empty() || word[0] == '-') {
      throw Wrong{"there is no option '" + word + "'"};
    } else if (!options.artifact.empty()) {
      throw Wrong{"one artifact, not '" + options.artifact + "' and '" + word + "'"};
    } else {
      options.artifact = word;
    }
  }
  if (options.artifact.empty()) throw Wrong{"which artifact?"};
  if (!options.outputs.empty() && options.inputs.empty()) {
    throw Wrong{"--output without --input: there is nothing to run on"};
  }
  if (!options.trace.empty() && options.inputs.empty()) {
    throw Wrong{"--trace without --input: there is nothing to run on"};
  }
  return options;
}

void print(const char* kind, const tvm_sparse_spec* spec) {
  std::printf("  %-6s %s: %s[", kind, spec->name, spec->dtype);
  for (int32_t axis = 0; axis < spec->ndim; ++axis) {
    const char* symbol = spec->symbols[axis];
    std::string text = symbol ? symbol : std::to_string(spec->shape[axis]);
    std::printf("%s%s", axis ? ", " : "", text.c_str());
  }
  std::printf("]\n");
}

void describe(const tvm_sparse::Library& library, const std::string& name) {
  std::printf("%s\n", name.c_str());
  for (size_t i = 0; i < library.num_inputs(); ++i) print("input", library.input(i));
  for (size_t i = 0; i < library.num_outputs(); ++i) print("output", library.output(i));
}

double percentile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

void run(tvm_sparse::Library& library, const Options& options) {
  size_t asked = options.outputs.size(), given = library.num_outputs();
  if (asked && asked != given) {
    throw Wrong{std::to_string(asked) + " times --output, but the artifact gives " +
                std::to_string(given) + ": one for each, or none"};
  }
  std::vector<npy::Array> arrays;
  std::vector<tvm_sparse::TensorView> inputs;
  for (const std::string& path : options.inputs) arrays.push_back(npy::read(path));
  for (const npy::Array& a : arrays) inputs.push_back({a.bytes.data(), a.shape, a.dtype});
  tvm_sparse::Outputs outputs = library(inputs);
  for (size_t i = 0; i < options.outputs.size(); ++i) npy::write(options.outputs[i], outputs[i]);
  std::vector<double> times;
  for (int i = 0; i < options.repeat; ++i) {
    auto begin = std::chrono::steady_clock::now();
    library(inputs);
    std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("  %zu runs after warm-up: median %.3f ms, p99 %.3f ms\n", times.size(),
              percentile(times, 0.5), percentile(times, 0.99));
  if (!options.trace.empty()) library.trace(inputs, options.trace);
}

}  // namespace

int main(int count, char** words) {
  try {
    std::vector<std::string> arguments(words + 1, words + count);
    if (arguments == std::vector<std::string>{"--help"}) return std::fputs(kUsage, stdout), 0;
    if (arguments == std::vector<std::string>{"--version"}) {
      return std::printf("tvm_sparse_run %s\n", tvm_sparse_version()), 0;
    }
    Options options = parsed(arguments);
    tvm_sparse::Library library(options.artifact, options.open);
    describe(library, options.artifact);
    if (!options.inputs.empty()) run(library, options);
    return 0;
  } catch (const Wrong& wrong) {
    std::fprintf(stderr, "error: %s\n%s", wrong.why.c_str(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
