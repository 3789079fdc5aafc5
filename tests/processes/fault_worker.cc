// Runs one task of a cluster on commands, one per line, and prints the result
// of each, so that a test knows the task's state when it kills the task.
//
// usage: fault_worker TRANSPORT ADDRESS,... TASK DEVICES default|fast [FOLDER]
//
// With the variable WITHOUT_MEMORY_FOR_TESTS, this process cannot read the
// memory of others. With FOLDER, gRPC uses TLS, and the certificates ca.pem,
// task-TASK.pem and task-TASK.key. MPI itself knows the tasks.
//
// Commands, from standard input. Commands with an ID end later, with a line "ID
// STATUS"; all others print "NAME STATUS" at once:
//   join SECONDS
//   run ID GROUP SIZE FIRST_RANK INSTANCE ELEMENTS [SECONDS]
//       all_reduce by all devices of this task, with consecutive ranks, and
//       with that deadline; ends with DATA_LOSS if an element is wrong
//   loop ID GROUP SIZE FIRST_RANK INSTANCE ELEMENTS [ALGORITHM]
//       repeats the same until it fails; prints "ID going" once the third
//       all_reduce has ended
//   step NUMBER            sets the step of later commands
//   reform GROUP
//   health TASK SECONDS
//   cleanup STEP
//   leave SECONDS
//   matrix                 RunMatrix()
//   reset                  breaks all connections of this process
//   count                  prints "count FDS THREADS" of this process
//   end                    also at the end of the input

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "remote/transport_registry.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/processes/matrix.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Prints a line. Thread-safe.
void Say(absl::string_view name, absl::string_view what) {
  const std::string line =
      absl::StrCat(name, " ", absl::StrReplaceAll(what, {{"\n", " "}}), "\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void Say(absl::string_view name, const absl::Status& status) {
  Say(name, status.ToString());
}

int CountEntries(const char* folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder)) {
    ++count;
  }
  return count;
}

// Sends a reset over each TCP connection, and closes all others.
void BreakConnections() {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    int descriptor = 0;
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    if (!absl::SimpleAtoi(entry.path().filename().string(), &descriptor) ||
        getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) !=
            0) {
      continue;  // No connection.
    }
    const sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (connect(descriptor, &nobody, sizeof(nobody)) != 0) {
      shutdown(descriptor, SHUT_RDWR);
    }
  }
}

// Collectives of all devices of this task. Rank r has the elements r, r + 1, r
// + 2, ...
class Job : public std::enable_shared_from_this<Job> {
 public:
  struct Options {
    std::string id;
    GroupKey group = 0;
    int group_size = 0;
    int first_rank = 0;
    InstanceKey instance = 0;
    int64_t num_elements = 0;
    std::string algorithm;
    absl::Time deadline = absl::InfiniteFuture();
    bool repeats = false;
  };

  Job(Options options, const Environment& environment, ClusterRuntime* runtime,
      int64_t step)
      : options_(std::move(options)),
        environment_(environment),
        devices_(runtime->devices()),
        executor_(runtime->manager().FindOrCreate(step)) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      CollectiveRequest request;
      request.group_key = options_.group;
      request.group_size = options_.group_size;
      request.rank = options_.first_rank + static_cast<int>(i);
      request.instance_key = options_.instance;
      request.impl_details.implementation = options_.algorithm;
      request.op = AllReduce{};
      request.dtype = DType::kInt64;
      request.shape = TensorShape::Vector(options_.num_elements);
      inputs_.emplace_back(static_cast<size_t>(options_.num_elements));
      for (size_t k = 0; k < inputs_[i].size(); ++k) {
        inputs_[i][k] = request.rank + static_cast<int64_t>(k);
      }
      outputs_.emplace_back(inputs_[i].size());
      requests_.push_back(
          std::make_shared<const CollectiveRequest>(std::move(request)));
    }
    tensors_.resize(devices_.size());
  }

  void Start() {
    {
      MutexLock lock(&mu_);
      num_left_ = devices_.size();
    }
    for (size_t i = 0; i < devices_.size(); ++i) {
      const TensorShape& shape = requests_[i]->shape;
      std::memset(outputs_[i].data(), 0, outputs_[i].size() * sizeof(int64_t));
      tensors_[i] = *Tensor::Wrap(DType::kInt64, shape, outputs_[i].data());
      executor_->ExecuteAsync(
          {.device = devices_[i],
           .request = requests_[i],
           .input = *Tensor::Wrap(DType::kInt64, shape, inputs_[i].data()),
           .output = &tensors_[i],
           .deadline = options_.deadline},
          [self = shared_from_this()](const absl::Status& status) {
            self->OnDone(status);
          });
    }
  }

 private:
  void OnDone(const absl::Status& status) {
    {
      MutexLock lock(&mu_);
      status_.Update(status);
      if (--num_left_ > 0) return;
    }
    environment_.queue->Schedule([self = shared_from_this()] { self->Next(); });
  }

  void Next() {
    absl::Status status;
    int num_rounds = 0;
    {
      MutexLock lock(&mu_);
      if (status_.ok()) status_ = Check();
      status = status_;
      num_rounds = ++num_rounds_;
    }
    if (!status.ok() || !options_.repeats) return Say(options_.id, status);
    if (num_rounds == 3) Say(options_.id, "going");
    Start();
  }

  absl::Status Check() const {
    const int64_t size = options_.group_size;
    int64_t num_wrong = 0;
    for (const auto& output : outputs_) {
      for (size_t k = 0; k < output.size(); ++k) {
        const int64_t wanted =
            size * (size - 1) / 2 + size * static_cast<int64_t>(k);
        if (output[k] != wanted) ++num_wrong;
      }
    }
    if (num_wrong == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(num_wrong, " elements are wrong"));
  }

  const Options options_;
  const Environment environment_;
  const std::vector<Device*> devices_;
  const std::shared_ptr<CollectiveExecutor> executor_;
  std::vector<std::shared_ptr<const CollectiveRequest>> requests_;

  // Elements by device. Between rounds only Next() uses them.
  std::vector<std::vector<int64_t>> inputs_;
  std::vector<std::vector<int64_t>> outputs_;
  std::vector<Tensor> tensors_;

  Mutex mu_;
  size_t num_left_ ABSL_GUARDED_BY(mu_) = 0;
  int num_rounds_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

class Worker {
 public:
  Worker(const Environment& environment,
         std::unique_ptr<ClusterRuntime> runtime)
      : environment_(environment), runtime_(std::move(runtime)) {}

  // Runs a command. Returns false at the end.
  bool Obey(const std::string& line) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "end") return false;
    if (name == "join") {
      Join(After(words));
    } else if (name == "run" || name == "loop") {
      Run(words, /*repeats=*/name == "loop");
    } else if (name == "step") {
      words >> step_;
      Say(name, absl::OkStatus());
    } else if (name == "reform") {
      GroupKey key = 0;
      words >> key;
      runtime_->ReformGroup(key, absl::AbortedError("reformed at will"));
      Say(name, absl::OkStatus());
    } else if (name == "health") {
      std::string task;
      double seconds = 0;
      words >> task >> seconds;
      runtime_->CheckHealth(task, absl::Seconds(seconds), Report(name));
    } else if (name == "cleanup") {
      int64_t step = 0;
      words >> step;
      runtime_->CleanupStep(step, Report(name));
    } else if (name == "named") {
      Named(words);
    } else if (name == "leave") {
      runtime_->Leave(After(words), Report(name));
    } else if (name == "matrix") {
      Say(name, RunMatrix(*runtime_, environment_));
    } else if (name == "reset") {
      BreakConnections();
      Say(name, absl::OkStatus());
    } else if (name == "count") {
      Say(name, absl::StrCat(CountEntries("/proc/self/fd"), " ",
                             CountEntries("/proc/self/task")));
    } else {
      Say(name, absl::InvalidArgumentError("unknown command"));
    }
    return true;
  }

 private:
  static StatusCallback Report(const std::string& name) {
    return [name](const absl::Status& status) { Say(name, status); };
  }

  absl::Time After(std::istream& words) const {
    double seconds = 0;
    words >> seconds;
    return environment_.clock->Now() + absl::Seconds(seconds);
  }

  void Join(absl::Time deadline) {
    runtime_->Join(
        deadline,
        [](const std::vector<int>& missing) {
          Say("missing", absl::StrJoin(missing, ","));
        },
        Report("join"));
  }

  // Has the coordinator of the key and these tasks, or that of all tasks if
  // there are none, add up the numbers of its tasks.
  void Named(std::istream& words) {
    int64_t key = 0;
    std::vector<int> tasks;
    words >> key;
    for (int task = 0; words >> task;) tasks.push_back(task);
    if (!tasks.empty() && !coordinators_.contains(key)) {
      auto created = runtime_->CreateCoordinator(key, tasks);
      if (!created.ok()) return Say("named", created.status());
      coordinators_[key] = *std::move(created);
    }
    const auto value = std::make_shared<int64_t>(runtime_->cluster().this_task);
    const auto sum = std::make_shared<Tensor>();
    const Tensor input =
        *Tensor::Wrap(DType::kInt64, TensorShape::Vector(1), value.get());
    Coordinator& coordinator =
        tasks.empty() ? runtime_->coordinator() : *coordinators_[key];
    coordinator.AllReduce({.name = "x", .input = input, .output = sum.get()},
                          [value, sum](const absl::Status& status) {
                            if (!status.ok()) return Say("named", status);
                            int64_t total = 0;
                            std::memcpy(&total, sum->data(), sizeof(total));
                            Say("named", absl::StrCat("sum ", total));
                          });
  }

  void Run(std::istream& words, bool repeats) {
    Job::Options options{.repeats = repeats};
    words >> options.id >> options.group >> options.group_size >>
        options.first_rank >> options.instance >> options.num_elements;
    if (repeats) {
      words >> options.algorithm;
    } else if (double seconds = 0; words >> seconds) {
      options.deadline = environment_.clock->Now() + absl::Seconds(seconds);
    }
    std::make_shared<Job>(std::move(options), environment_, runtime_.get(),
                          step_)
        ->Start();
  }

  const Environment environment_;
  const std::unique_ptr<ClusterRuntime> runtime_;
  std::map<int64_t, std::shared_ptr<Coordinator>> coordinators_;  // By key.
  int64_t step_ = 1;
};

// Connects by the words TRANSPORT ADDRESS,... TASK DEVICES default|fast
// [FOLDER].
absl::StatusOr<TaskNetwork> Connect(const Environment& environment,
                                    const std::vector<std::string>& words) {
  NetworkSettings settings = {.environment = environment, .insecure = true};
  settings.cluster.addresses = absl::StrSplit(words[1], ',');
  if (!absl::SimpleAtoi(words[2], &settings.cluster.this_task)) {
    return absl::InvalidArgumentError("wanted the number TASK");
  }
  if (words.size() == 6) {
    const std::string own = absl::StrCat(words[5], "/task-", words[2]);
    settings.insecure = false;
    settings.tls = {.certificate = own + ".pem",
                    .key = own + ".key",
                    .ca = words[5] + "/ca.pem"};
  }
  ASSIGN_OR_RETURN(const auto transport,
                   TransportRegistry::Global().Find(words[0]));
  return transport.connect(settings);
}

absl::StatusOr<std::unique_ptr<ClusterRuntime>> CreateRuntime(
    const Environment& environment, const absl::StatusOr<TaskNetwork>& network,
    const std::vector<std::string>& words) {
  RETURN_IF_ERROR(network.status());
  int num_devices = 0;
  if (!absl::SimpleAtoi(words[3], &num_devices)) {
    return absl::InvalidArgumentError("wanted the number DEVICES");
  }
  return ClusterRuntime::Create({.cluster = network->cluster,
                                 .environment = environment,
                                 .devices_per_task = num_devices,
                                 .make_transport = network->make_transport,
                                 .health = words[4] == "fast"
                                               ? HealthProfile::Fast()
                                               : HealthProfile::Default()});
}

int Main(const std::vector<std::string>& words) {
  if (words.size() != 5 && words.size() != 6) {
    Say("create",
        "wanted TRANSPORT ADDRESS,... TASK DEVICES default|fast [FOLDER]");
    return 2;
  }
  if (std::getenv("WITHOUT_MEMORY_FOR_TESTS") != nullptr &&
      !ForbidSystemCall(SYS_process_vm_readv)) {
    Say("create", "process_vm_readv cannot be forbidden here");
    return 1;
  }
  const DefaultEnvironment environment(2);
  {
    const auto network = Connect(environment.get(), words);
    auto runtime = CreateRuntime(environment.get(), network, words);
    Say("create", runtime.status());
    if (!runtime.ok()) return 1;
    Worker worker(environment.get(), *std::move(runtime));
    std::string line;
    while (std::getline(std::cin, line) && worker.Obey(line)) {
    }
  }
  Say("end", absl::OkStatus());
  return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main({argv + 1, argv + argc}); }
