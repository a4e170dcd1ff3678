// Immediate post-dominators: where the two ways of a branch meet for the first time.
#include <algorithm>

#include "decoder.h"

namespace ptx {
namespace {

// Blocks of instructions that are entered at the first only; the last of all stands for the end.
struct Graph {
  std::vector<int> first;               // instruction of each block
  std::vector<std::vector<int>> after;  // blocks that may follow
};

Graph Blocks(const std::vector<Inst>& code) {
  const int size = static_cast<int>(code.size());
  std::vector<bool> starts(size + 1, false);
  starts[0] = starts[size] = true;
  for (int i = 0; i < size; ++i) {
    if (code[i].flow != Flow::kBranch && code[i].flow != Flow::kReturn) continue;
    starts[i + 1] = true;
    if (code[i].target >= 0) starts[code[i].target] = true;
  }
  Graph graph;
  std::vector<int> block_of(size + 1);
  for (int i = 0; i <= size; ++i) {
    if (starts[i]) graph.first.push_back(i);
    block_of[i] = static_cast<int>(graph.first.size()) - 1;
  }
  const int end = static_cast<int>(graph.first.size()) - 1;
  graph.after.resize(end + 1);
  for (int b = 0; b < end; ++b) {
    const Inst& last = code[graph.first[b + 1] - 1];
    const bool goes_on =
        last.flow == Flow::kNext || last.flow == Flow::kBarrier || last.guard != kNowhere;
    if (goes_on) graph.after[b].push_back(b + 1);
    if (last.flow == Flow::kBranch) graph.after[b].push_back(block_of[last.target]);
    if (last.flow == Flow::kReturn) graph.after[b].push_back(end);
  }
  return graph;
}

// Blocks that reach the end, in post-order of a search from there against the flow.
std::vector<int> PostOrder(const Graph& graph, int end) {
  std::vector<std::vector<int>> before(graph.after.size());
  for (size_t b = 0; b < graph.after.size(); ++b) {
    for (const int follower : graph.after[b]) before[follower].push_back(static_cast<int>(b));
  }
  std::vector<int> order;
  std::vector<bool> seen(graph.after.size(), false);
  std::vector<std::pair<int, size_t>> stack{{end, 0}};
  seen[end] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next == before[block].size()) {
      order.push_back(block);
      stack.pop_back();
      continue;
    }
    const int found = before[block][next++];
    if (!seen[found]) {
      seen[found] = true;
      stack.emplace_back(found, 0);
    }
  }
  return order;
}

}  // namespace

void FindJoins(std::vector<Inst>* code) {
  if (code->empty()) return;
  const Graph graph = Blocks(*code);
  const int end = static_cast<int>(graph.first.size()) - 1;
  const std::vector<int> order = PostOrder(graph, end);
  std::vector<int> rank(graph.after.size(), -1), join(graph.after.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<int>(i);
  join[end] = end;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      if (rank[a] < rank[b]) a = join[a];
      else b = join[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = order.rbegin() + 1; at != order.rend(); ++at) {  // the end itself is the first
      const int block = *at;
      int found = -1;
      for (const int follower : graph.after[block]) {
        if (join[follower] >= 0) found = found < 0 ? follower : meet(found, follower);
      }
      if (found >= 0 && join[block] != found) {
        join[block] = found;
        changed = true;
      }
    }
  }
  for (int b = 0; b < end; ++b) {
    Inst& last = (*code)[graph.first[b + 1] - 1];
    if (last.flow == Flow::kBranch)
      last.join = join[b] < 0 ? graph.first[end] : graph.first[join[b]];
  }
}

}  // namespace ptx
