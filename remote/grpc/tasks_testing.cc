#include "remote/grpc/tasks_testing.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/grpc_transport.h"

namespace tutti {

TestTasks::TestTasks(int num_tasks, Change change)
    : change_(std::move(change)), ports_(*ReservedPorts::Create(num_tasks)) {
  control_ = std::make_unique<FunctionService>(
      [](const ControlCaller& caller, const proto::ControlRequest& request,
         std::shared_ptr<Cancellation> /*withdrawn*/, ControlDone done) {
        proto::ControlReply reply;
        reply.mutable_step_sequence()->set_step_id(
            request.cleanup_step().step() + caller.task);
        std::move(done)(reply);
      });
  for (int task = 0; task < num_tasks; ++task) {
    cluster_.addresses.push_back(
        absl::StrCat("127.0.0.1:", ports_.get()[task]));
    tables_.push_back(std::make_unique<TableService>());
    incarnations_.push_back(1000 * (task + 1));
    transports_.push_back(nullptr);
  }
}

TestTasks::~TestTasks() = default;

GrpcTransportOptions TestTasks::Options(int task) const {
  GrpcTransportOptions options{.cluster = cluster_,
                               .incarnation = incarnations_[task],
                               .environment = environment_.get(),
                               .job_id = "job",
                               .token = "secret"};
  options.cluster.this_task = task;
  if (change_) change_(task, options);
  return options;
}

void TestTasks::Start(int task) {
  Stop(task);
  ++incarnations_[task];
  auto transport = CreateGrpcTransport(Options(task));
  ASSERT_THAT(transport, IsOk());
  ASSERT_THAT((*transport)->Start(control_.get(), tables_[task].get()), IsOk());
  transports_[task] = *std::move(transport);
}

void TestTasks::StartAll() {
  for (int task = 0; task < cluster_.num_tasks(); ++task) Start(task);
}

void TestTasks::Stop(int task) { transports_[task].reset(); }

void TestTasks::Request(int from, int to, const BufKey& key, size_t num_bytes,
                        Receiver& receiver, DType dtype) {
  transports_[from]->transfers().Request(
      to, key, {.num_bytes = num_bytes, .dtype = dtype, .receiver = &receiver});
}

proto::ControlRequest CleanupStep(int64_t step) {
  proto::ControlRequest request;
  request.mutable_cleanup_step()->set_step(step);
  return request;
}

std::vector<std::byte> Pattern(size_t num_bytes) {
  std::vector<std::byte> bytes(num_bytes);
  for (size_t i = 0; i < num_bytes; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + (i >> 9));
  }
  return bytes;
}

BufKey KeyOf(int tag) { return {.exec = {.step = 1}, .tag = tag, .from = 1}; }

}  // namespace tutti
