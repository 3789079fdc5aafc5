#ifndef TUTTI_EXAMPLES_TRAIN_TRAINER_H_
#define TUTTI_EXAMPLES_TRAIN_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/train/data.h"
#include "tutti.h"

namespace train {

// Trains one model on several devices, by stochastic gradient descent with
// momentum. Every device has a replica of the model and sees its own part of
// each batch; the gradients are averaged over the devices by one all-reduce per
// step, so that all replicas take the same step.
//
// For one thread at a time. `environment`'s parts outlive the trainer.
class Trainer {
 public:
  struct Options {
    int num_devices = 8;
    int batch_size = 8;  // Examples per device and step.
    float learning_rate = 0.1f;
    float momentum = 0.9f;
    std::string algorithm;  // Empty: the library chooses.
  };

  // Every replica begins with `parameters`. Errors: as LocalGroup::Create.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const tutti::Environment& environment, const Options& options,
      absl::Span<const float> parameters);

  // One pass over `examples` in their order, without those at the end that fill
  // no batch. Errors: those of an all-reduce; the replicas may then differ.
  absl::Status TrainEpoch(absl::Span<const Example> examples);

  int StepsPerEpoch(size_t num_examples) const;

  absl::Span<const float> parameters(int device) const {
    return replicas_[device].parameters;
  }

  // Bit for bit.
  bool ReplicasAreEqual() const;

 private:
  // What one device holds. In a step its own work and then its callback change
  // it, never both.
  struct Replica {
    std::vector<float> parameters;
    std::vector<float> velocity;
    std::vector<float> gradient;
    tutti::Tensor gradient_tensor;  // The memory of `gradient`.
    absl::Status status;
  };

  Trainer(tutti::WorkQueue* queue, const Options& options,
          std::unique_ptr<tutti::LocalGroup> group);

  absl::Status AddReplica(absl::Span<const float> parameters);
  absl::Status TrainStep(absl::Span<const Example> batch);
  absl::Span<const Example> PartOf(absl::Span<const Example> batch,
                                   int device) const;
  void Update(Replica& replica) const;

  tutti::WorkQueue* const queue_;
  const Options options_;
  const std::unique_ptr<tutti::LocalGroup> group_;
  const std::shared_ptr<const tutti::CollectiveRequest> all_reduce_;
  std::vector<Replica> replicas_;
  int64_t step_id_ = 0;
};

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_TRAINER_H_
