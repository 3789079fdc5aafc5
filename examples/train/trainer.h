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
#include "examples/train/step_outfeed.h"
#include "tutti/tutti.h"

namespace train {

// Trains one model on several devices, by stochastic gradient descent with
// momentum. Every device has a replica of the model and sees a separate part of
// each batch. One all-reduce per step averages the gradients over the devices,
// so that all replicas make the same step. Each device reports every step to
// the host through its outfeed.
//
// For one thread at a time. The parts of `environment` outlive the trainer.
class Trainer {
 public:
  struct Options {
    int num_devices = 8;
    int batch_size = 8;  // Examples per device and step.
    float learning_rate = 0.1f;
    float momentum = 0.9f;
    std::string algorithm;  // Empty: the library chooses.
    StepCallback on_step;   // May be null.
  };

  // Every replica starts with `parameters`. Errors: as LocalGroup::Create.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const tutti::Environment& environment, const Options& options,
      absl::Span<const float> parameters);

  // Makes one pass over `examples` in their order, without the last ones that
  // do not fill a batch. All reports are delivered when it returns. Errors:
  // those of an all-reduce or of the outfeed; the replicas may then differ.
  absl::Status TrainEpoch(absl::Span<const Example> examples);

  int StepsPerEpoch(size_t num_examples) const;

  absl::Span<const float> parameters(int device) const {
    return replicas_[device].parameters;
  }

  // Compares the replicas bit for bit.
  bool ReplicasAreEqual() const;

 private:
  // State of one device. In a step the device's work and then its callback
  // change it, never both at once.
  struct Replica {
    std::vector<float> parameters;
    std::vector<float> velocity;
    std::vector<float> gradient;
    tutti::Tensor gradient_tensor;  // Shares the memory of `gradient`.
    double loss = 0;
    absl::Status status;
  };

  Trainer(const tutti::Environment& environment, const Options& options,
          std::unique_ptr<tutti::LocalGroup> group);

  absl::Status AddReplica(absl::Span<const float> parameters);
  absl::Status TrainSteps(absl::Span<const Example> examples,
                          const StepOutfeed& outfeed);
  absl::Status TrainStep(absl::Span<const Example> batch,
                         const StepOutfeed& outfeed);
  absl::Span<const Example> PartOf(absl::Span<const Example> batch,
                                   int device) const;
  void Update(Replica& replica) const;
  static StepReport ReportOf(const Replica& replica);

  const tutti::Environment environment_;
  const Options options_;
  const std::unique_ptr<tutti::LocalGroup> group_;
  const std::shared_ptr<const tutti::CollectiveRequest> all_reduce_;
  std::vector<Replica> replicas_;
  int64_t step_id_ = 0;
};

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_TRAINER_H_
