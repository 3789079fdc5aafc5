// Trains a small classifier of handwritten digits on several devices. One
// all-reduce per step averages their gradients. The devices stream the loss and
// the gradient's norm of every step to the host. Then trains again on one
// device, which sees the same batches whole, and compares the two.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/train/data.h"
#include "examples/train/model.h"
#include "examples/train/step_outfeed.h"
#include "examples/train/step_watch.h"
#include "examples/train/trainer.h"
#include "tutti/environment.h"
#include "tutti/tutti.h"

namespace train {
namespace {

constexpr size_t kNumTestExamples = 297;  // The other 1,500 are for training.
constexpr uint32_t kSeed = 1;

struct Flags {
  std::string data_path = DefaultDataPath();
  int num_epochs = 10;
  bool watch = false;
  Trainer::Options trainer;
};

std::string Devices(int count) {
  return absl::StrCat(count, count == 1 ? " device" : " devices");
}

// The loss on the training data, and the accuracy on the test data.
std::string QualityOf(const Trainer& trainer, const DataSet& data) {
  const auto parameters = trainer.parameters(0);
  return absl::StrFormat("%13.6f  %11.2f %%",
                         Evaluate(parameters, data.training).loss,
                         100 * Evaluate(parameters, data.test).accuracy);
}

// Collects the devices' reports of one epoch. Each device writes to a separate
// element. Shows all reports on `watch`, if there is one.
class Reports {
 public:
  Reports(int num_devices, std::unique_ptr<StepWatch> watch)
      : sums_(num_devices), watch_(std::move(watch)) {}

  void Add(int device, const StepReport& report) {
    if (watch_ != nullptr) watch_->Add(device, report);
    Sums& sums = sums_[device];
    sums.loss += report.loss;
    sums.gradient_norm += report.gradient_norm;
    ++sums.count;
  }

  // Call ClearWatch() before printing a line, and FinishWatch() after the last
  // one.
  void ClearWatch() const {
    if (watch_ != nullptr) watch_->Clear();
  }
  void FinishWatch() const {
    if (watch_ != nullptr) watch_->Finish();
  }

  // Means over all steps and devices. Resets the sums.
  std::string TakeMeans() {
    Sums all;
    for (Sums& sums : sums_) {
      all.loss += sums.loss;
      all.gradient_norm += sums.gradient_norm;
      all.count += sums.count;
      sums = {};
    }
    return absl::StrFormat("%10.6f  %13.6f", all.loss / all.count,
                           all.gradient_norm / all.count);
  }

 private:
  struct Sums {
    double loss = 0;
    double gradient_norm = 0;
    double count = 0;
  };
  std::vector<Sums> sums_;
  const std::unique_ptr<StepWatch> watch_;
};

// Trains and prints a line per epoch.
absl::Status TrainEpochs(DataSet data, int num_epochs, Trainer& trainer,
                         Reports& reports) {
  const int num_steps = trainer.StepsPerEpoch(data.training.size());
  std::mt19937 generator(kSeed);
  absl::PrintF(
      "  epoch   mean loss  gradient norm  test accuracy  time per step\n");
  for (int epoch = 1; epoch <= num_epochs; ++epoch) {
    Shuffle(data.training, generator);
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = trainer.TrainEpoch(data.training);
    if (!status.ok()) return status;
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    const Quality quality = Evaluate(trainer.parameters(0), data.test);
    reports.ClearWatch();
    absl::PrintF("%7d  %s  %11.2f %%  %10.0f us\n", epoch, reports.TakeMeans(),
                 100 * quality.accuracy, elapsed.count() / num_steps);
  }
  reports.FinishWatch();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Trainer>> Train(
    const tutti::Environment& environment, Trainer::Options options,
    const DataSet& data, const Flags& flags) {
  std::unique_ptr<StepWatch> watch;
  if (flags.watch) {
    watch = std::make_unique<StepWatch>(options.num_devices,
                                        isatty(STDOUT_FILENO) == 1,
                                        environment.clock, stdout);
  }
  const auto reports =
      std::make_shared<Reports>(options.num_devices, std::move(watch));
  options.on_step = [reports](int device, const StepReport& report) {
    reports->Add(device, report);
  };
  auto trainer =
      Trainer::Create(environment, options, InitialParameters(kSeed));
  if (!trainer.ok()) return trainer.status();
  absl::PrintF("\n%s, %d images each per step\n", Devices(options.num_devices),
               options.batch_size);
  const absl::Status status =
      TrainEpochs(data, flags.num_epochs, **trainer, *reports);
  if (!status.ok()) return status;
  if (!(*trainer)->ReplicasAreEqual()) {
    return absl::InternalError("the devices' replicas of the model differ");
  }
  return trainer;
}

// Options for one device that sees the same batches. Errors: INVALID_ARGUMENT
// if the examples do not fill a batch.
absl::StatusOr<Trainer::Options> OnOneDevice(Trainer::Options options,
                                             size_t num_examples) {
  const size_t batch_size = options.num_devices * options.batch_size;
  if (batch_size > num_examples) {
    return absl::InvalidArgumentError(
        absl::StrCat(Devices(options.num_devices), " with ", options.batch_size,
                     " images each need more than the ", num_examples,
                     " images that there are"));
  }
  options.num_devices = 1;
  options.batch_size = static_cast<int>(batch_size);
  return options;
}

absl::Status Run(const Flags& flags) {
  const auto data = ReadDataSet(flags.data_path, kNumTestExamples);
  if (!data.ok()) return data.status();
  const auto one_device = OnOneDevice(flags.trainer, data->training.size());
  if (!one_device.ok()) return one_device.status();
  absl::PrintF("%d images to train on, %d to test, %d parameters\n",
               data->training.size(), data->test.size(), kNumParameters);

  const tutti::DefaultEnvironment environment;
  const auto many = Train(environment.get(), flags.trainer, *data, flags);
  if (!many.ok()) return many.status();
  const auto one = Train(environment.get(), *one_device, *data, flags);
  if (!one.ok()) return one.status();

  const int num_devices = flags.trainer.num_devices;
  absl::PrintF("\n%-12s training loss  test accuracy\n", "trained on");
  absl::PrintF("%-12s %s\n", Devices(num_devices), QualityOf(**many, *data));
  absl::PrintF("%-12s %s\n", Devices(1), QualityOf(**one, *data));
  absl::PrintF("The %d replicas are equal bit for bit.\n", num_devices);
  absl::PrintF(
      "Largest difference of a parameter to one device: %.1e\n",
      LargestDifference((*many)->parameters(0), (*one)->parameters(0)));
  return absl::OkStatus();
}

std::vector<std::string> AllReduceAlgorithms() {
  std::vector<std::string> names;
  for (const auto& entry : tutti::CollectiveRegistry::Global().List()) {
    if (absl::c_linear_search(entry.factory->traits().collectives,
                              tutti::CollectiveType::kAllReduce)) {
      names.push_back(entry.name);
    }
  }
  return names;
}

void AddOptions(CLI::App& app, Flags& flags) {
  app.add_option("--devices", flags.trainer.num_devices,
                 "Devices that train together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--batch", flags.trainer.batch_size,
                 "Images per device and step")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--epochs", flags.num_epochs, "Passes over the images")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--algorithm", flags.trainer.algorithm,
                 "How gradients are averaged; default: the library chooses")
      ->check(CLI::IsMember(AllReduceAlgorithms()));
  app.add_flag("--watch", flags.watch,
               "Show what each device reports of its steps, as it comes");
  app.add_option("--data", flags.data_path, "Images and labels to learn from")
      ->capture_default_str();
}

// Returns the exit status: 2 for a wrong command line.
int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains a classifier of handwritten digits on several devices.",
               "train");
  AddOptions(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 2;
  }
  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "train: %s\n", status.message());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) { return train::Main(argc, argv); }
