// An all-reduce in a oneTBB flow graph, in two ways. As one opaque node, it
// calls Tutti's executor and continues the graph when the call ends. Lowered,
// every step of the algorithm is a node of the graph. Both compute the same
// bits.
//
//   produce --> [        all-reduce        ] --> consume
//   produce --> [ reduce -> reduce -> copy ] --> consume
//               [ reduce -> reduce -> copy ]

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "examples/flow_graph/flow_graph_builder.h"
#include "tutti/environment.h"
#include "tutti/lowering.h"
#include "tutti/params.h"
#include "tutti/tutti.h"

namespace {

using tbb::flow::continue_msg;

// Runs Tutti's work on oneTBB's threads.
class TbbWorkQueue : public tutti::WorkQueue {
 public:
  ~TbbWorkQueue() noexcept override { tasks_.wait(); }
  void Schedule(tutti::Work work) override {
    tasks_.run([work = std::make_shared<tutti::Work>(std::move(work))] {
      std::move (*work)();
    });
  }
  int num_workers() const override { return tbb::info::default_concurrency(); }

 private:
  tbb::task_group tasks_;
};

// The data of all members, which the graphs fill and read.
struct Members {
  explicit Members(const tutti::CollectiveRequest& collective) {
    for (int rank = 0; rank < collective.group_size; ++rank) {
      for (auto* tensors : {&inputs, &outputs}) {
        tensors->push_back(
            *tutti::Tensor::Allocate(collective.dtype, collective.shape));
      }
    }
  }

  // Produces values whose sums depend on the order.
  void Produce() {
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      auto* values = reinterpret_cast<float*>(inputs[rank].mutable_data());
      for (int64_t i = 0; i < inputs[rank].num_elements(); ++i) {
        values[i] = 1.0F / static_cast<float>(3 + 7 * rank + 5 * i);
      }
    }
  }

  std::vector<tutti::Tensor> inputs;
  std::vector<tutti::Tensor> outputs;
};

bool SameBits(const Members& a, const Members& b) {
  return std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(),
                    [](const tutti::Tensor& left, const tutti::Tensor& right) {
                      return std::memcmp(left.data(), right.data(),
                                         left.size_bytes()) == 0;
                    });
}

using Request = std::shared_ptr<const tutti::CollectiveRequest>;

// The members' calls end on any thread; the last one continues the graph.
using AllReduceNode = tbb::flow::async_node<continue_msg, absl::Status>;
class AllReduceCall : public std::enable_shared_from_this<AllReduceCall> {
 public:
  AllReduceCall(AllReduceNode::gateway_type& gateway, size_t size)
      : gateway_(gateway), statuses_(size), num_pending_(size) {}

  void Start(tutti::CollectiveExecutor& executor,
             const std::vector<tutti::Device*>& devices, const Request& request,
             Members& members) {
    gateway_.reserve_wait();
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      executor.ExecuteAsync({.device = devices[rank],
                             .request = request,
                             .input = members.inputs[rank],
                             .output = &members.outputs[rank]},
                            [self = shared_from_this(), rank](absl::Status s) {
                              self->Done(rank, std::move(s));
                            });
    }
  }

 private:
  void Done(size_t rank, absl::Status status) {
    statuses_[rank] = std::move(status);
    if (num_pending_.fetch_sub(1) != 1) return;
    const auto failed =
        std::find_if(statuses_.begin(), statuses_.end(),
                     [](const absl::Status& each) { return !each.ok(); });
    gateway_.try_put(failed == statuses_.end() ? absl::OkStatus() : *failed);
    gateway_.release_wait();
  }

  AllReduceNode::gateway_type& gateway_;
  std::vector<absl::Status> statuses_;
  std::atomic<size_t> num_pending_;
};

absl::Status RunOpaque(const Request& request, Members& members) {
  TbbWorkQueue queue;
  const tutti::DefaultEnvironment defaults;
  const auto group = tutti::LocalGroup::Create(
      {&queue, defaults.get().clock, defaults.get().random}, /*num_tasks=*/1,
      request->group_size);
  if (!group.ok()) return group.status();
  const auto step = (*group)->manager().FindOrCreate(/*step_id=*/1);

  tbb::flow::graph graph;
  tbb::flow::continue_node<continue_msg> produce(
      graph, [&](continue_msg) { members.Produce(); });
  AllReduceNode all_reduce(
      graph, tbb::flow::unlimited, [&](continue_msg, auto& gateway) {
        std::make_shared<AllReduceCall>(gateway, members.inputs.size())
            ->Start(*step, (*group)->devices(), request, members);
      });
  absl::Status status;
  tbb::flow::function_node<absl::Status> consume(
      graph, tbb::flow::serial,
      [&](const absl::Status& result) { status = result; });
  tbb::flow::make_edge(produce, all_reduce);
  tbb::flow::make_edge(all_reduce, consume);

  produce.try_put({});
  graph.wait_for_all();
  return status;
}

absl::Status RunLowered(const Request& request, Members& members) {
  tbb::flow::graph graph;
  tbb::flow::continue_node<continue_msg> produce(
      graph, [&](continue_msg) { members.Produce(); });
  FlowGraphBuilder all_reduce(graph, *request, members.inputs, members.outputs);
  const auto layout =
      tutti::GroupLayout::Uniform(/*num_tasks=*/1, request->group_size);
  const absl::Status status =
      tutti::LowerGroup({.collective = *request, .layout = layout}, all_reduce);
  if (!status.ok()) return status;
  all_reduce.Connect();
  tbb::flow::continue_node<continue_msg> consume(graph, [&](continue_msg) {
    std::cout << "ran " << all_reduce.num_steps() << " steps\n";
  });
  tbb::flow::make_edge(produce, all_reduce.start());
  tbb::flow::make_edge(all_reduce.end(), consume);

  produce.try_put({});
  graph.wait_for_all();
  return all_reduce.status();
}

absl::Status Run() {
  const auto request = std::make_shared<tutti::CollectiveRequest>();
  request->group_size = 4;
  request->op = tutti::AllReduce();
  request->shape = tutti::TensorShape::Vector(1001);
  request->final_op = tutti::FinalOp::DivideByGroupSize();
  request->impl_details.implementation = "RingReduce";

  Members opaque(*request);
  absl::Status status = RunOpaque(request, opaque);
  if (!status.ok()) return status;
  Members lowered(*request);
  status = RunLowered(request, lowered);
  if (!status.ok()) return status;
  if (!SameBits(opaque, lowered)) {
    return absl::InternalError("the outputs differ");
  }
  std::cout << "same bits\n";
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << "flow_graph: " << status << '\n';
  return status.ok() ? 0 : 1;
}
