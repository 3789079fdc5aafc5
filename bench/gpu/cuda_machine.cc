#include "bench/gpu/cuda_machine.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/runtime/cuda_status.h"
#include "gpu/runtime/on_gpu.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

constexpr double kSecondsPerMillisecond = 1e-3;

void GiveUp(const absl::Status& status) {
  std::cout << "FAILED: " << status << std::endl;
  std::_Exit(EXIT_FAILURE);
}

cudaStream_t HandleOf(GpuStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

absl::Status Record(cudaEvent_t event, GpuStream stream) {
  const OnGpu on_gpu(stream.gpu);
  return CudaStatus(cudaEventRecord(event, HandleOf(stream)), "cudaEventRecord",
                    stream.gpu);
}

class CudaGraph : public GpuGraph {
 public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override { (void)cudaGraphExecDestroy(graph_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  absl::Status Launch(GpuStream stream) override {
    const OnGpu on_gpu(stream.gpu);
    return CudaStatus(cudaGraphLaunch(graph_, HandleOf(stream)),
                      "cudaGraphLaunch", stream.gpu);
  }

 private:
  const cudaGraphExec_t graph_;
};

}  // namespace

absl::Status CudaTiming::Init() {
  const OnGpu on_gpu(0);
  absl::Status status;
  for (cudaEvent_t* const event : {&start_, &stop_}) {
    status.Update(CudaStatus(cudaEventCreate(event), "cudaEventCreate", 0));
  }
  return status;
}

CudaTiming::~CudaTiming() {
  for (cudaEvent_t const event : {start_, stop_}) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
}

absl::Status CudaTiming::Start(GpuStream stream) {
  return Record(start_, stream);
}

absl::Status CudaTiming::Stop(GpuStream stream) {
  return Record(stop_, stream);
}

absl::StatusOr<double> CudaTiming::Seconds() {
  float milliseconds = 0;
  RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&milliseconds, start_, stop_),
                             "cudaEventElapsedTime", 0));
  return milliseconds * kSecondsPerMillisecond;
}

absl::StatusOr<std::unique_ptr<GpuGraph>> CudaTiming::Capture(
    GpuStream stream, absl::FunctionRef<absl::Status()> enqueue) {
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(
      CudaStatus(cudaStreamBeginCapture(HandleOf(stream),
                                        cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture", stream.gpu));
  absl::Status status = enqueue();
  cudaGraph_t graph = nullptr;
  // Ends the capture after an error, too.
  status.Update(CudaStatus(cudaStreamEndCapture(HandleOf(stream), &graph),
                           "cudaStreamEndCapture", stream.gpu));
  cudaGraphExec_t executable = nullptr;
  if (status.ok()) {
    status = CudaStatus(cudaGraphInstantiate(&executable, graph, 0),
                        "cudaGraphInstantiate", stream.gpu);
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  return std::make_unique<CudaGraph>(executable);
}

CudaMachine::CudaMachine()
    : waiter_(runtime_, *environment_.get().clock, {.give_up = GiveUp}) {}

absl::StatusOr<std::unique_ptr<CudaMachine>> CudaMachine::Create(
    const CheckScale& scale) {
  // The constructor is private.
  std::unique_ptr<CudaMachine> made(new CudaMachine());
  const absl::StatusOr<int> num_gpus = made->runtime_.NumGpus();
  if (!num_gpus.ok()) return absl::NotFoundError(num_gpus.status().message());
  if (*num_gpus == 0) return absl::NotFoundError("the driver knows of none");
  RETURN_IF_ERROR(made->timing_.Init());
  made->machine_ = std::make_unique<GpuMachine>(
      GpuMachine{.runtime = made->runtime_,
                 .trace = made->runtime_.trace(),
                 .timing = made->timing_,
                 .waiter = made->waiter_,
                 .environment = made->environment_.get(),
                 .nccl = NcclHere(),
                 .scale = scale});
  return made;
}

std::vector<std::string> CudaMachine::Description() {
  std::vector<std::string> lines;
  for (int gpu = 0; gpu < machine_->num_gpus(); ++gpu) {
    const auto properties = runtime_.Properties(gpu);
    lines.push_back(
        properties.ok()
            ? absl::StrCat("GPU ", gpu, ": ", properties->name, ", ",
                           properties->num_multiprocessors,
                           " multiprocessors, ", properties->memory_bytes >> 20,
                           " MiB, at ", properties->bus_id)
            : absl::StrCat("GPU ", gpu, ": ", properties.status().message()));
  }
  const auto& nccl = machine_->nccl;
  if (!nccl.ok()) {
    lines.push_back(absl::StrCat("LEFT OUT: NCCL: ", nccl.status().message()));
    return lines;
  }
  const std::string& why = (*nccl)->WhyBlocking();
  lines.push_back(absl::StrCat(
      "NCCL ", (*nccl)->Version(),
      why.empty() ? "" : absl::StrCat(", within one process alone: ", why)));
  return lines;
}

int ExitStatusWithout(const std::string& program, const absl::Status& status) {
  const bool has_no_gpu = absl::IsNotFound(status);
  std::cerr << program << ": " << (has_no_gpu ? "no GPU: " : "")
            << status.message() << '\n';
  return has_no_gpu ? kNoGpu : EXIT_FAILURE;
}

}  // namespace tutti
