// The training of examples/train as an MPI job, in which each process has a
// replica of the model and sees a separate part of each batch:
//
//   mpirun -n 4 mpi_train [EPOCHS]
//
// The gradient consists of many named tensors: the weights of each unit and the
// biases of each layer. Every process computes the tensors one by one, in an
// order that it shuffles for each step, and requests the sum of each tensor at
// once. When all processes have requested a tensor, the coordinator has them
// reduce it, while they compute the next ones.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "examples/train/data.h"
#include "examples/train/model.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"
#include "tutti/named_tensors.h"
#include "tutti/tutti.h"

namespace train {
namespace {

constexpr size_t kNumTestExamples = 297;
constexpr uint32_t kSeed = 1;
constexpr int kBatch = 64;  // Images per step and process.
constexpr float kLearningRate = 0.1F;
constexpr float kMomentum = 0.9F;

// Starts `count` asynchronous operations and waits for all; `start` starts
// number i. Returns the first error.
template <typename Start>
absl::Status AwaitAll(size_t count, Start start) {
  std::vector<absl::Status> results(count);
  tutti::BlockingCounter left(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    start(i, [&results, &left, i](absl::Status status) {
      results[i] = std::move(status);
      left.DecrementCount();
    });
  }
  left.Wait();
  absl::Status first;
  for (const absl::Status& result : results) first.Update(result);
  return first;
}

class RankTrainer {
 public:
  explicit RankTrainer(tutti::ClusterRuntime* runtime)
      : runtime_(runtime),
        parts_(Parts()),
        order_(static_cast<uint32_t>(rank())),
        velocity_(kNumParameters),
        gradient_(kNumParameters) {}

  int rank() const { return runtime_->cluster().this_task; }
  int size() const { return runtime_->cluster().num_tasks(); }
  const std::vector<float>& parameters() const { return parameters_; }

  absl::Status TrainEpoch(absl::Span<const Example> examples) {
    const size_t per_rank = std::max(kBatch / size(), 1);
    const size_t batch = per_rank * size();
    for (size_t begin = 0; begin + batch <= examples.size(); begin += batch) {
      const auto own = examples.subspan(begin + rank() * per_rank, per_rank);
      const absl::Status status = SumGradients(own);
      if (!status.ok()) return status;
      Update();
    }
    return absl::OkStatus();
  }

  // Gathers the parameters of all ranks, one after the other.
  absl::Status GatherParameters(tutti::Tensor* all) {
    return tutti::Await([&](tutti::StatusCallback done) {
      runtime_->coordinator().AllGather(
          {.name = "parameters",
           .input = Wrap(parameters_.data(), kNumParameters),
           .output = all},
          std::move(done));
    });
  }

 private:
  static tutti::Tensor Wrap(float* data, int size) {
    return *tutti::Tensor::Wrap(tutti::DType::kFloat32,
                                tutti::TensorShape::Vector(size), data);
  }

  // Sums the gradients of all ranks' examples, part by part. Each rank has a
  // different order of parts.
  absl::Status SumGradients(absl::Span<const Example> own) {
    const Backpropagation backpropagation(parameters_, own);
    std::shuffle(parts_.begin(), parts_.end(), order_);
    std::vector<tutti::Tensor> sums(parts_.size());
    return AwaitAll(parts_.size(), [&](size_t i, tutti::StatusCallback done) {
      const Part& part = parts_[i];
      float* const gradient = gradient_.data() + part.begin;
      backpropagation.Compute(part, absl::MakeSpan(gradient, part.size));
      sums[i] = Wrap(gradient, part.size);
      // Runs while the next part is computed.
      runtime_->coordinator().AllReduce(
          {.name = part.name, .input = sums[i], .output = &sums[i]},
          std::move(done));
    });
  }

  void Update() {
    for (int i = 0; i < kNumParameters; ++i) {
      velocity_[i] =
          kMomentum * velocity_[i] + gradient_[i] / static_cast<float>(size());
      parameters_[i] -= kLearningRate * velocity_[i];
    }
  }

  tutti::ClusterRuntime* const runtime_;
  std::vector<Part> parts_;
  std::mt19937 order_;
  std::vector<float> parameters_ = InitialParameters(kSeed);
  std::vector<float> velocity_;
  std::vector<float> gradient_;
};

absl::Status CheckEqual(RankTrainer* trainer) {
  tutti::Tensor all;
  const absl::Status status = trainer->GatherParameters(&all);
  if (!status.ok()) return status;
  const size_t bytes = trainer->parameters().size() * sizeof(float);
  for (int rank = 0; rank < trainer->size(); ++rank) {
    if (std::memcmp(all.data() + rank * bytes, trainer->parameters().data(),
                    bytes) != 0) {
      return absl::InternalError(absl::StrCat("rank ", trainer->rank(), " and ",
                                              rank, " have other parameters"));
    }
  }
  return absl::OkStatus();
}

absl::Status Train(tutti::ClusterRuntime* runtime, int num_epochs) {
  auto data = ReadDataSet(DefaultDataPath(), kNumTestExamples);
  if (!data.ok()) return data.status();
  RankTrainer trainer(runtime);
  const bool prints = trainer.rank() == 0;
  std::mt19937 generator(kSeed);  // All ranks draw the same images.
  for (int epoch = 1; epoch <= num_epochs; ++epoch) {
    Shuffle(data->training, generator);
    const absl::Status status = trainer.TrainEpoch(data->training);
    if (!status.ok()) return status;
    if (!prints) continue;
    absl::PrintF("epoch %d: training loss %.6f, test accuracy %.2f %%\n", epoch,
                 Evaluate(trainer.parameters(), data->training).loss,
                 100 * Evaluate(trainer.parameters(), data->test).accuracy);
  }
  const absl::Status status = CheckEqual(&trainer);
  if (status.ok() && prints) {
    absl::PrintF("The %d replicas are equal bit for bit.\n", trainer.size());
  }
  return status;
}

absl::Status Run(int num_epochs) {
  const tutti::DefaultEnvironment environment;
  tutti::MpiRuntime mpi({.environment = environment.get()});
  absl::Status status = mpi.Start();
  if (!status.ok()) return status;
  const auto cluster = tutti::ClusterOf(mpi);
  if (!cluster.ok()) return cluster.status();
  const auto runtime = tutti::ClusterRuntime::Create(
      {.cluster = *cluster,
       .environment = environment.get(),
       .make_transport = [&](uint64_t incarnation) {
         return tutti::CreateMpiTransport({.runtime = &mpi,
                                           .cluster = *cluster,
                                           .incarnation = incarnation,
                                           .environment = environment.get()});
       }});
  if (!runtime.ok()) return runtime.status();
  const auto in_a_minute = [&] {
    return environment.get().clock->Now() + absl::Seconds(60);
  };
  status = tutti::Await([&](tutti::StatusCallback done) {
    (*runtime)->Join(in_a_minute(), /*progress=*/nullptr, std::move(done));
  });
  if (status.ok()) status = Train(runtime->get(), num_epochs);
  if (!status.ok()) return status;
  return tutti::Await([&](tutti::StatusCallback done) {
    (*runtime)->Leave(in_a_minute(), std::move(done));
  });
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  int num_epochs = 3;
  if (argc > 2 || (argc == 2 && (!absl::SimpleAtoi(argv[1], &num_epochs) ||
                                 num_epochs < 1))) {
    std::fprintf(stderr, "usage: mpirun -n PROCESSES mpi_train [EPOCHS]\n");
    return 2;
  }
  const absl::Status status = train::Run(num_epochs);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "mpi_train: %s\n", status.message());
  return 1;
}
