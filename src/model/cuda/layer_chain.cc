#include "model/cuda/layer_chain.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"

namespace forerun::cuda {
namespace {

struct Chain {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;  // [i] joins nodes i and i + 1
  std::vector<std::string> names;        // names of the kernels
  std::vector<std::string> signatures;   // names and launch sizes
  std::vector<std::string> launches;     // the same, in readable form
};

Status no_chain(const std::string& why) {
  return {StatusCode::kUnsupported, "the pass's graph is no chain of equal layers: " + why};
}

std::string demangled(const char* mangled) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &failed), &std::free);
  return failed == 0 ? text.get() : mangled;
}

// Returns "linear_kernel" for a mangled "forerun::cuda::(anonymous namespace)::linear_kernel<8,
// true>(...)".
std::string plain_name(const char* mangled) {
  std::string name = demangled(mangled);
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const std::string_view scope : {"forerun::", "cuda::", "(anonymous namespace)::"}) {
    if (name.starts_with(scope)) name.erase(0, scope.size());
  }
  return name.substr(0, name.find_first_of("<("));
}

Status describe(cudaGraphNode_t node, Chain& chain) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphNodeGetType(node, &type), "reading a graph");
  if (type != cudaGraphNodeTypeKernel) {
    chain.names.push_back("node of type " + std::to_string(type));
    chain.signatures.push_back(chain.names.back());
    chain.launches.push_back(chain.names.back());
    return {};
  }
  cudaKernelNodeParams params = {};
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphKernelNodeGetParams(node, &params), "reading a graph");
  const char* mangled = nullptr;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaFuncGetName(&mangled, params.func), "naming a kernel");
  chain.names.push_back(plain_name(mangled));
  std::string signature = mangled;
  for (const unsigned int size :
       {params.gridDim.x, params.gridDim.y, params.blockDim.x, params.sharedMemBytes}) {
    signature += " " + std::to_string(size);
  }
  chain.signatures.push_back(std::move(signature));
  const std::string full = demangled(mangled);
  chain.launches.push_back(
      full.substr(0, full.rfind('(')) + "  grid " + std::to_string(params.gridDim.x) + "x" +
      std::to_string(params.gridDim.y) + ", " + std::to_string(params.blockDim.x) + " threads, " +
      std::to_string(params.sharedMemBytes) + " bytes");
  return {};
}

Result<Chain> read_chain(cudaGraph_t graph) {
  size_t count = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count),
                               "reading a graph");
  std::vector<cudaGraphNode_t> from(count);
  std::vector<cudaGraphNode_t> to(count);
  std::vector<cudaGraphEdgeData> data(count);
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &count), "reading a graph");
  std::map<cudaGraphNode_t, size_t> edge_from;
  for (size_t i = 0; i < count; ++i) {
    if (!edge_from.emplace(from[i], i).second) return no_chain("a kernel has two successors");
  }
  size_t num_roots = 1;
  cudaGraphNode_t node = nullptr;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphGetRootNodes(graph, &node, &num_roots), "reading a graph");
  if (num_roots == 0) return no_chain("it is empty");
  Chain chain;
  for (;;) {
    chain.nodes.push_back(node);
    FORERUN_RETURN_IF_ERROR(describe(node, chain));
    const auto next = edge_from.find(node);
    if (next == edge_from.end()) break;
    chain.edges.push_back(data[next->second]);
    node = to[next->second];
  }
  if (chain.nodes.size() != count + 1) return no_chain("it branches");
  return chain;
}

Result<std::pair<Chain, Repetition>> read_layers(cudaGraph_t graph, int32_t num_layers) {
  FORERUN_ASSIGN_OR_RETURN(Chain chain, read_chain(graph));
  const auto layers = find_repetition(chain.signatures, static_cast<size_t>(num_layers));
  if (!layers) return no_chain("no kernels repeat " + std::to_string(num_layers) + " times");
  return std::pair(std::move(chain), *layers);
}

}  // namespace

std::optional<Repetition> find_repetition(std::span<const std::string> signatures, size_t times) {
  if (times == 0) return std::nullopt;
  for (size_t period = signatures.size() / times; period > 0; --period) {
    for (size_t first = 0; first + times * period <= signatures.size(); ++first) {
      const auto block = signatures.subspan(first, times * period);
      if (std::equal(block.begin() + static_cast<std::ptrdiff_t>(period), block.end(),
                     block.begin())) {
        return Repetition{first, period};
      }
    }
  }
  return std::nullopt;
}

Result<std::vector<std::string>> layer_parts(cudaGraph_t graph, int32_t num_layers) {
  FORERUN_ASSIGN_OR_RETURN(const auto layers, read_layers(graph, num_layers));
  const auto& [chain, repetition] = layers;
  constexpr const char* kAfterAttention[] = {"O", "gate, up", "down"};
  std::vector<std::string> parts;
  bool has_attended = false;
  size_t linear_idx = 0;
  for (size_t i = 0; i < repetition.period; ++i) {
    std::string name = chain.names[repetition.first + i];
    const bool is_linear = name.starts_with("linear");
    has_attended = has_attended || (!is_linear && !parts.empty() && parts.back() == "QKV");
    if (is_linear && !has_attended) {
      name = "QKV";
    } else if (is_linear && linear_idx < std::size(kAfterAttention)) {
      name = kAfterAttention[linear_idx++];
    }
    parts.push_back(std::move(name));
  }
  return parts;
}

Result<std::string> list_kernels(cudaGraph_t graph, int32_t num_layers) {
  FORERUN_ASSIGN_OR_RETURN(const Chain chain, read_chain(graph));
  const auto layers = find_repetition(chain.signatures, static_cast<size_t>(num_layers));
  const size_t begin = layers ? layers->first : chain.launches.size();
  std::string lines;
  for (size_t i = 0; i < chain.launches.size(); ++i) {
    if (i == begin) lines += std::to_string(num_layers) + " times:\n";
    if (i >= begin && i < begin + layers->period) lines += "  ";
    lines += chain.launches[i] + "\n";
    if (i >= begin && i + 1 == begin + layers->period) {
      i += layers->period * static_cast<size_t>(num_layers - 1);
    }
  }
  return lines;
}

Status leave_out_part(cudaGraph_t graph, int32_t num_layers, int32_t part) {
  FORERUN_ASSIGN_OR_RETURN(const auto layers, read_layers(graph, num_layers));
  const auto& [chain, repetition] = layers;
  if (part < 0 || static_cast<size_t>(part) >= repetition.period || repetition.period < 2) {
    return {StatusCode::kInvalidArgument,
            "part " + std::to_string(part) + ", a layer has " + std::to_string(repetition.period)};
  }
  for (size_t layer_idx = 0; layer_idx < static_cast<size_t>(num_layers); ++layer_idx) {
    const size_t at = repetition.first + layer_idx * repetition.period + static_cast<size_t>(part);
    FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphDestroyNode(chain.nodes[at]), "taking a kernel out");
    if (at == 0 || at + 1 == chain.nodes.size()) continue;
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaGraphAddDependencies(graph, &chain.nodes[at - 1], &chain.nodes[at + 1],
                                 &chain.edges[at], 1),
        "joining a kernel's neighbours");
  }
  return {};
}

}  // namespace forerun::cuda
