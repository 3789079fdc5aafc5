#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "framework/tensor/small_floats.h"
#include "schedule/lower/recorded_graph_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/lowering.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace lower_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kStep = 1;

CollectiveOp OpOf(CollectiveType type, int size) {
  const int root = size / 2;
  switch (type) {
    case CollectiveType::kAllReduce:
      return AllReduce();
    case CollectiveType::kAllGather:
      return AllGather();
    case CollectiveType::kReduceScatter:
      return ReduceScatter();
    case CollectiveType::kBroadcast:
      return Broadcast();
    case CollectiveType::kAllToAll:
      return AllToAll();
    case CollectiveType::kPermute: {
      Permute permute;
      for (int i = 0; i < size; ++i)
        permute.permutation.push_back(size - 1 - i);
      return permute;
    }
    case CollectiveType::kBarrier:
      return Barrier();
    case CollectiveType::kReduce:
      return ReduceToRoot{root};
    case CollectiveType::kGather:
      return GatherToRoot{root};
    case CollectiveType::kScatter:
      return ScatterFromRoot{root};
    case CollectiveType::kScan:
      return Scan();
    case CollectiveType::kExscan:
      return Exscan();
  }
  return AllReduce();
}

struct Setting {
  std::string algorithm;
  CollectiveType type = CollectiveType::kAllReduce;
  int num_tasks = 1;
  int devices_per_task = 2;
  int64_t length = 1;  // Times group size if the input is blocks.
  bool in_place = false;
  DType dtype = DType::kFloat32;
};

std::string ToString(const Setting& setting) {
  return absl::StrCat(setting.algorithm, ", ", Name(setting.type), " on ",
                      setting.num_tasks, "x", setting.devices_per_task, ", ",
                      setting.length, " elements of ", Name(setting.dtype),
                      setting.in_place ? ", in place" : "");
}

std::string Bytes(const std::byte* data, size_t num_bytes) {
  return {reinterpret_cast<const char*>(data), num_bytes};
}

// A collective whose sums depend on the order of the inputs.
class Case {
 public:
  explicit Case(const Setting& setting)
      : setting_(setting),
        layout_(
            GroupLayout::Uniform(setting.num_tasks, setting.devices_per_task)) {
    const int size = layout_.size();
    const bool scatters = setting.type == CollectiveType::kReduceScatter ||
                          setting.type == CollectiveType::kScatter ||
                          setting.type == CollectiveType::kAllToAll;
    collective_.group_size = size;
    collective_.op = OpOf(setting.type, size);
    // The token of a barrier is a byte of the input.
    if (setting.type == CollectiveType::kBarrier) setting_.length = 1;
    collective_.shape =
        TensorShape::Vector(setting_.length * (scatters ? size : 1));
    collective_.dtype = setting.dtype;
    if (!IsScan(setting.type)) {
      collective_.final_op = FinalOp::DivideByGroupSize();
    }
    collective_.impl_details.implementation = setting.algorithm;
  }

  int size() const { return layout_.size(); }
  const CollectiveRequest& collective() const { return collective_; }
  LowerRequest request() const {
    return {.collective = collective_,
            .layout = layout_,
            .source = size() / 2,
            .in_place = std::vector<bool>(size(), setting_.in_place)};
  }

  std::vector<Tensor> Inputs() const {
    std::vector<Tensor> inputs;
    for (int rank = 0; rank < size(); ++rank) {
      inputs.push_back(*Tensor::Allocate(collective_.dtype, collective_.shape));
      std::byte* const values = inputs.back().mutable_data();
      for (int64_t i = 0; i < collective_.shape.num_elements(); ++i) {
        const float value = 1.0F / static_cast<float>(3 + 7 * rank + 5 * i);
        if (setting_.dtype == DType::kFloat16) {
          reinterpret_cast<uint16_t*>(values)[i] = FloatToFloat16(value);
        } else {
          reinterpret_cast<float*>(values)[i] = value;
        }
      }
    }
    return inputs;
  }

  // Outputs with room for the largest output of any member.
  std::vector<Tensor> Outputs() const {
    const bool gathers = setting_.type == CollectiveType::kAllGather ||
                         setting_.type == CollectiveType::kGather;
    const auto shape = TensorShape::Vector(collective_.shape.num_elements() *
                                           (gathers ? size() : 1));
    std::vector<Tensor> outputs;
    for (int rank = 0; rank < size(); ++rank) {
      outputs.push_back(*Tensor::Allocate(collective_.dtype, shape));
    }
    return outputs;
  }

  // Results of the engine.
  std::vector<std::string> RunByEngine(const Environment& environment) const {
    const auto group = *LocalGroup::Create(environment, setting_.num_tasks,
                                           setting_.devices_per_task);
    std::vector<Tensor> inputs = Inputs();
    std::vector<Tensor> outputs(size());
    std::vector<CollectiveArgs> calls(size());
    for (int rank = 0; rank < size(); ++rank) {
      CollectiveRequest request = collective_;
      request.rank = rank;
      if (auto* broadcast = std::get_if<Broadcast>(&request.op)) {
        broadcast->is_source = rank == size() / 2;
      }
      if (setting_.in_place) outputs[rank] = inputs[rank];
      calls[rank].request = std::make_shared<const CollectiveRequest>(request);
      if (HasInput(setting_.type, rank, size() / 2)) {
        calls[rank].input = inputs[rank];
      }
      calls[rank].output = &outputs[rank];
    }
    EXPECT_THAT(group->Run(kStep, absl::MakeSpan(calls)), IsOk());
    std::vector<std::string> bits;
    for (const Tensor& output : outputs) {
      const bool is_empty = !output.is_set() || output.num_elements() == 0;
      bits.push_back(is_empty ? "" : Bytes(output.data(), output.size_bytes()));
    }
    return bits;
  }

  // Results of the graph: as many bytes of each output as `wanted` has.
  std::vector<std::string> Run(RecordedGraph* graph, uint32_t seed,
                               const std::vector<std::string>& wanted) const {
    std::vector<Tensor> inputs = Inputs();
    std::vector<Tensor> outputs = Outputs();
    const auto memory = MemoryOf(inputs, outputs);
    EXPECT_TRUE(graph->Run(collective_, memory, seed));
    std::vector<std::string> bits;
    for (int rank = 0; rank < size(); ++rank) {
      bits.push_back(Bytes(memory.outputs[rank], wanted[rank].size()));
    }
    return bits;
  }

  std::string FindRace(const RecordedGraph& graph) const {
    std::vector<Tensor> inputs = Inputs();
    std::vector<Tensor> outputs = Outputs();
    return graph.FindRace(MemoryOf(inputs, outputs));
  }

 private:
  RecordedGraph::Memory MemoryOf(std::vector<Tensor>& inputs,
                                 std::vector<Tensor>& outputs) const {
    RecordedGraph::Memory memory;
    for (int rank = 0; rank < size(); ++rank) {
      memory.inputs.push_back(inputs[rank].mutable_data());
      memory.outputs.push_back(setting_.in_place
                                   ? memory.inputs[rank]
                                   : outputs[rank].mutable_data());
    }
    return memory;
  }

  Setting setting_;
  const GroupLayout layout_;
  CollectiveRequest collective_;
};

// Calls `visit` with each of the algorithm's collectives, on several layouts.
// Settings include fewer elements than ranks, odd numbers of elements, and in
// place.
void ForEachSetting(const std::string& name,
                    absl::FunctionRef<void(const Setting&)> visit) {
  const auto factory = *CollectiveRegistry::Global().Find(name);
  constexpr int kLayouts[][2] = {{1, 1}, {1, 2}, {1, 3}, {1, 5},
                                 {2, 2}, {3, 2}, {2, 4}};
  for (const CollectiveType type : factory->traits().collectives) {
    for (const auto& [num_tasks, devices_per_task] : kLayouts) {
      for (const int64_t length : {0, 1, 3, 61}) {
        for (const bool in_place : {false, true}) {
          if (in_place && type != CollectiveType::kAllReduce && !IsScan(type)) {
            continue;
          }
          Setting setting{.algorithm = name,
                          .type = type,
                          .num_tasks = num_tasks,
                          .devices_per_task = devices_per_task,
                          .length = length,
                          .in_place = in_place};
          for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
            setting.dtype = dtype;
            SCOPED_TRACE(ToString(setting));
            visit(setting);
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

class LowerTest : public testing::TestWithParam<std::string> {
 protected:
  void CheckGraph(const Case& job, RecordedGraph* graph) const {
    EXPECT_THAT(graph->complaints(), IsEmpty());
    EXPECT_EQ(job.FindRace(*graph), "");
    const std::vector<std::string> wanted = job.RunByEngine(environment_.get());
    for (const uint32_t seed : {1, 2, 3}) {
      EXPECT_EQ(job.Run(graph, seed, wanted), wanted) << "seed " << seed;
    }
  }

  const DefaultEnvironment environment_;
};

TEST_P(LowerTest, GroupYieldsTheBitsOfTheEngineInAnyOrder) {
  ForEachSetting(GetParam(), [this](const Setting& setting) {
    const Case job(setting);
    RecordedGraph graph;
    ASSERT_THAT(LowerGroup(job.request(), graph), IsOk());
    CheckGraph(job, &graph);
  });
}

TEST_P(LowerTest, MembersYieldTheBitsOfTheEngineInAnyOrder) {
  ForEachSetting(GetParam(), [this](const Setting& setting) {
    const Case job(setting);
    RecordedGraph graph;
    for (int rank = 0; rank < job.size(); ++rank) {
      graph.SetMember(rank);
      ASSERT_THAT(LowerMember(job.request(), rank, graph), IsOk());
    }
    CheckGraph(job, &graph);
  });
}

std::vector<std::string> Algorithms() {
  std::vector<std::string> names;
  for (const auto& entry : CollectiveRegistry::Global().List()) {
    if (AlgorithmOf(*entry.factory) != nullptr) names.push_back(entry.name);
  }
  return names;
}

// Records the graph of all members as lines like "3: reduce after 0 2".
class Lines : public GraphBuilder {
 public:
  void AddScratch(int rank, int64_t num_bytes) override {
    lines.push_back(absl::StrCat("scratch ", rank, ": ", num_bytes));
  }
  NodeId AddCopy(const CopyNode& node,
                 absl::Span<const NodeId> after) override {
    return Add(absl::StrCat(Text(node.into), " = ", Text(node.from)), after);
  }
  NodeId AddReduce(const ReduceNode& node,
                   absl::Span<const NodeId> after) override {
    const auto append = [](std::string* text, const Region& region) {
      text->append(Text(region));
    };
    return Add(absl::StrCat(Text(node.into), " = ",
                            absl::StrJoin(node.operands, " + ", append),
                            node.finish ? ", finish" : ""),
               after);
  }

  std::vector<std::string> lines;

 private:
  static std::string Text(const Region& region) {
    const absl::string_view space = region.space == Space::kInput  ? "in"
                                    : region.space == Space::kData ? "out"
                                                                   : "scratch";
    return absl::StrCat(space, region.rank, "[", region.offset_bytes, "+",
                        region.num_bytes, "]");
  }
  NodeId Add(const std::string& text, absl::Span<const NodeId> after) {
    lines.push_back(absl::StrCat(num_nodes_, ": ", text, " after {",
                                 absl::StrJoin(after, ","), "}"));
    return num_nodes_++;
  }

  NodeId num_nodes_ = 0;
};

// In place, each rank adds the other's chunk to its own, and then copies the
// other's sum. The copy overwrites bytes that the other rank must read first.
TEST(LowerGroupTest, WritesWaitForReads) {
  const Case job({.algorithm = "RingReduce", .length = 3, .in_place = true});
  Lines graph;
  ASSERT_THAT(LowerGroup(job.request(), graph), IsOk());
  EXPECT_THAT(graph.lines,
              ElementsAre("0: out0[0+8] = in1[0+8] + in0[0+8], finish after {}",
                          "1: out1[8+4] = in0[8+4] + in1[8+4], finish after {}",
                          "2: out0[8+4] = out1[8+4] after {0,1}",
                          "3: out1[0+8] = out0[0+8] after {0,1}"));
}

TEST(LowerGroupTest, EmptyChunksHaveNoNodes) {
  const Case job({.algorithm = "RingReduce", .devices_per_task = 8});
  Lines graph;
  ASSERT_THAT(LowerGroup(job.request(), graph), IsOk());
  EXPECT_EQ(graph.lines.size(), 7 + 7);
}

TEST(LowerGroupTest, HonoursSubdivisions) {
  const Case job({.algorithm = "RingReduce", .length = 12});
  CollectiveRequest collective = job.collective();
  collective.impl_details.subdiv_offsets = {0, -1, 1};
  LowerRequest request{.collective = collective,
                       .layout = job.request().layout};
  Lines graph;
  ASSERT_THAT(LowerGroup(request, graph), IsOk());
  EXPECT_EQ(graph.lines.size(), 3 * 4);
}

// Returns the status of LowerGroup() for a changed request. Expects no lines
// after an error.
absl::Status LowerChanged(absl::FunctionRef<void(CollectiveRequest&)> change) {
  const Case job({.algorithm = "RingReduce", .devices_per_task = 3});
  CollectiveRequest collective = job.collective();
  change(collective);
  Lines graph;
  const absl::Status status = LowerGroup(
      {.collective = collective, .layout = job.request().layout}, graph);
  EXPECT_EQ(graph.lines.empty(), !status.ok());
  return status;
}

TEST(LowerGroupTest, WithoutANameTakesOneThatHasSteps) {
  for (const GroupLayout& layout :
       {GroupLayout::Uniform(1, 3), GroupLayout::Uniform(4, 1),
        GroupLayout::Uniform(2, 2), GroupLayout::Uniform(2, 4),
        *GroupLayout::Create({0, 0, 0, 1, 2, 2})}) {
    SCOPED_TRACE(layout.ToString());
    for (const int64_t length : {int64_t{0}, int64_t{100}, int64_t{1} << 24}) {
      CollectiveRequest collective;
      collective.group_size = layout.size();
      collective.op = AllReduce();
      collective.shape = TensorShape::Vector(length);
      Lines graph;
      const LowerRequest request = {.collective = collective, .layout = layout};
      EXPECT_THAT(LowerGroup(request, graph), IsOk());
      EXPECT_EQ(graph.lines.empty(), length == 0);
      RecordedGraph member;
      member.SetMember(0);
      EXPECT_THAT(LowerMember(request, /*rank=*/0, member), IsOk());
    }
  }
}

TEST(LowerGroupTest, RefusesWhatIsNotMadeOfSteps) {
  EXPECT_THAT(
      LowerChanged([](auto& collective) {
        collective.impl_details.implementation = "LocalReduce";
      }),
      IsUnimplemented("cannot lower LocalReduce: it is not made of steps"));
}

TEST(LowerGroupTest, RefusesAnUnknownName) {
  EXPECT_THAT(LowerChanged([](auto& collective) {
                collective.impl_details.implementation = "Ring";
              }),
              IsNotFound("\"Ring\""));
}

TEST(LowerGroupTest, RefusesALayoutOfAnotherSize) {
  EXPECT_THAT(LowerChanged([](auto& collective) { collective.group_size = 4; }),
              IsInvalidArgument("for a group of 4, the layout 1x3 has 3"));
}

TEST(LowerGroupTest, RefusesMembersThatDifferInSize) {
  EXPECT_THAT(LowerChanged([](auto& collective) {
                collective.op = AllGather{.uneven = true};
                collective.impl_details.implementation = "RingGather";
              }),
              IsUnimplemented("all_gather"));
}

TEST(LowerGroupTest, RefusesAMergeOpThatTheAlgorithmCannotKeepInOrder) {
  const auto first = MergeOp::Custom(
      {.name = "first", .apply = [](auto&&...) { return absl::OkStatus(); }});
  EXPECT_THAT(
      LowerChanged([&](auto& collective) { collective.merge_op = *first; }),
      IsInvalidArgument("rank order"));
}

TEST(LowerMemberTest, RefusesARankOutsideTheGroup) {
  const Case job({.algorithm = "RingReduce"});
  RecordedGraph graph;
  EXPECT_THAT(LowerMember(job.request(), 2, graph),
              IsInvalidArgument("rank 2 of a group of 2"));
}

INSTANTIATE_TEST_SUITE_P(All, LowerTest, testing::ValuesIn(Algorithms()),
                         [](const auto& info) { return info.param; });

}  // namespace lower_test
}  // namespace tutti
