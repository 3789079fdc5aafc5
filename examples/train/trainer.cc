#include "examples/train/trainer.h"

#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "examples/train/model.h"
#include "tutti/tutti.h"

namespace train {
namespace {

// Request to average a flat gradient over all devices.
std::shared_ptr<const tutti::CollectiveRequest> AverageGradients(
    const Trainer::Options& options) {
  tutti::CollectiveRequest request;
  request.group_key = 1;
  request.group_size = options.num_devices;
  request.instance_key = 1;
  request.op = tutti::AllReduce();
  request.dtype = tutti::DType::kFloat32;
  request.shape = tutti::TensorShape::Vector(kNumParameters);
  request.final_op = tutti::FinalOp::DivideByGroupSize();
  request.impl_details.implementation = options.algorithm;
  return std::make_shared<const tutti::CollectiveRequest>(std::move(request));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const tutti::Environment& environment, const Options& options,
    absl::Span<const float> parameters) {
  auto group = tutti::LocalGroup::Create(environment, /*num_tasks=*/1,
                                         options.num_devices);
  if (!group.ok()) return group.status();
  std::unique_ptr<Trainer> trainer(
      new Trainer(environment, options, *std::move(group)));
  for (int device = 0; device < options.num_devices; ++device) {
    const absl::Status status = trainer->AddReplica(parameters);
    if (!status.ok()) return status;
  }
  return trainer;
}

Trainer::Trainer(const tutti::Environment& environment, const Options& options,
                 std::unique_ptr<tutti::LocalGroup> group)
    : environment_(environment),
      options_(options),
      group_(std::move(group)),
      all_reduce_(AverageGradients(options)) {}

absl::Status Trainer::AddReplica(absl::Span<const float> parameters) {
  Replica replica;
  replica.parameters.assign(parameters.begin(), parameters.end());
  replica.velocity.resize(parameters.size());
  replica.gradient.resize(parameters.size());
  auto tensor = tutti::Tensor::Wrap(all_reduce_->dtype, all_reduce_->shape,
                                    replica.gradient.data());
  if (!tensor.ok()) return tensor.status();
  replica.gradient_tensor = *std::move(tensor);
  // Does not move the vectors' elements.
  replicas_.push_back(std::move(replica));
  return absl::OkStatus();
}

int Trainer::StepsPerEpoch(size_t num_examples) const {
  return static_cast<int>(num_examples) /
         (options_.num_devices * options_.batch_size);
}

absl::Status Trainer::TrainEpoch(absl::Span<const Example> examples) {
  const auto outfeed = StepOutfeed::Start(
      environment_, group_->devices(), [this](int device, const auto& report) {
        if (options_.on_step) options_.on_step(device, report);
      });
  if (!outfeed.ok()) return outfeed.status();
  absl::Status status = TrainSteps(examples, **outfeed);
  status.Update((*outfeed)->Finish());
  return status;
}

absl::Status Trainer::TrainSteps(absl::Span<const Example> examples,
                                 const StepOutfeed& outfeed) {
  const size_t batch = options_.num_devices * options_.batch_size;
  for (int step = 0; step < StepsPerEpoch(examples.size()); ++step) {
    const absl::Status status =
        TrainStep(examples.subspan(step * batch, batch), outfeed);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Each device proceeds without waiting for the others' callbacks: gradient,
// all-reduce, update, report. Only the caller blocks.
absl::Status Trainer::TrainStep(absl::Span<const Example> batch,
                                const StepOutfeed& outfeed) {
  const int64_t step_id = ++step_id_;
  const auto executor = group_->manager().FindOrCreate(step_id);
  tutti::BlockingCounter pending(options_.num_devices);
  for (int device = 0; device < options_.num_devices; ++device) {
    environment_.queue->Schedule([=, this, &outfeed, &pending] {
      Replica& replica = replicas_[device];
      replica.loss = ComputeGradient(replica.parameters, PartOf(batch, device),
                                     absl::MakeSpan(replica.gradient));
      tutti::CollectiveArgs args;
      args.device = group_->devices()[device];
      args.request = all_reduce_;
      args.input = replica.gradient_tensor;
      args.output = &replica.gradient_tensor;
      const auto end = [&replica, &pending](absl::Status status) {
        replica.status = std::move(status);
        pending.DecrementCount();
      };
      executor->ExecuteAsync(args, [=, this, &replica, &outfeed](auto status) {
        if (!status.ok()) return end(std::move(status));
        Update(replica);
        outfeed.Send(device, ReportOf(replica), end);
      });
    });
  }
  pending.Wait();
  group_->manager().Cleanup(step_id);

  for (const Replica& replica : replicas_) {
    if (!replica.status.ok()) return replica.status;
  }
  return absl::OkStatus();
}

bool Trainer::ReplicasAreEqual() const {
  const std::vector<float>& first = replicas_.front().parameters;
  return absl::c_all_of(replicas_, [&](const Replica& other) {
    return std::memcmp(first.data(), other.parameters.data(),
                       first.size() * sizeof(float)) == 0;
  });
}

absl::Span<const Example> Trainer::PartOf(absl::Span<const Example> batch,
                                          int device) const {
  return batch.subspan(device * options_.batch_size, options_.batch_size);
}

StepReport Trainer::ReportOf(const Replica& replica) {
  return {.loss = static_cast<float>(replica.loss),
          .gradient_norm = static_cast<float>(Norm(replica.gradient))};
}

void Trainer::Update(Replica& replica) const {
  for (size_t i = 0; i < replica.parameters.size(); ++i) {
    replica.velocity[i] =
        options_.momentum * replica.velocity[i] + replica.gradient[i];
    replica.parameters[i] -= options_.learning_rate * replica.velocity[i];
  }
}

}  // namespace train
