#include "bench/gpu/cuda_timing.h"

#include <utility>

#include "gpu/runtime/cuda_status.h"
#include "gpu/runtime/on_gpu.h"

namespace tutti {
namespace {

constexpr double kSecondsPerMillisecond = 1e-3;

cudaStream_t HandleOf(GpuStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

class CudaGraph : public GpuGraph {
 public:
  CudaGraph(int gpu, cudaGraphExec_t graph) : gpu_(gpu), graph_(graph) {}
  ~CudaGraph() override { (void)cudaGraphExecDestroy(graph_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  absl::Status Launch(GpuStream stream) override {
    const OnGpu on_gpu(gpu_);
    return CudaStatus(cudaGraphLaunch(graph_, HandleOf(stream)),
                      "cudaGraphLaunch", gpu_);
  }

 private:
  const int gpu_;
  const cudaGraphExec_t graph_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaTiming>> CudaTiming::Create(int gpu) {
  // The constructor is private.
  std::unique_ptr<CudaTiming> timing(new CudaTiming(gpu));
  const OnGpu on_gpu(gpu);
  for (cudaEvent_t* const event : {&timing->start_, &timing->stop_}) {
    const absl::Status status =
        CudaStatus(cudaEventCreate(event), "cudaEventCreate", gpu);
    if (!status.ok()) return status;
  }
  return timing;
}

CudaTiming::~CudaTiming() {
  for (cudaEvent_t const event : {start_, stop_}) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
  for (cudaEvent_t const mark : marks_) (void)cudaEventDestroy(mark);
}

absl::Status CudaTiming::Start(GpuStream stream) {
  return Record(start_, stream);
}

absl::Status CudaTiming::Stop(GpuStream stream) {
  return Record(stop_, stream);
}

absl::StatusOr<double> CudaTiming::Seconds() { return Between(start_, stop_); }

absl::StatusOr<int> CudaTiming::Mark(GpuStream stream) {
  const OnGpu on_gpu(gpu_);
  cudaEvent_t mark = nullptr;
  absl::Status status =
      CudaStatus(cudaEventCreate(&mark), "cudaEventCreate", gpu_);
  if (!status.ok()) return status;
  marks_.push_back(mark);
  status = Record(mark, stream);
  if (!status.ok()) return status;
  return static_cast<int>(marks_.size()) - 1;
}

absl::StatusOr<double> CudaTiming::SecondsBetween(int from, int to) {
  return Between(marks_.at(from), marks_.at(to));
}

absl::StatusOr<std::unique_ptr<GpuGraph>> CudaTiming::Capture(
    GpuStream stream, absl::FunctionRef<absl::Status()> enqueue) {
  const OnGpu on_gpu(gpu_);
  absl::Status status =
      CudaStatus(cudaStreamBeginCapture(HandleOf(stream),
                                        cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture", gpu_);
  if (!status.ok()) return status;
  status = enqueue();
  cudaGraph_t graph = nullptr;
  // Also after an error, or the stream would stay in the capture.
  status.Update(CudaStatus(cudaStreamEndCapture(HandleOf(stream), &graph),
                           "cudaStreamEndCapture", gpu_));
  cudaGraphExec_t executable = nullptr;
  if (status.ok()) {
    status = CudaStatus(cudaGraphInstantiate(&executable, graph, 0),
                        "cudaGraphInstantiate", gpu_);
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  return std::make_unique<CudaGraph>(gpu_, executable);
}

absl::StatusOr<double> CudaTiming::Between(cudaEvent_t from,
                                           cudaEvent_t to) const {
  float milliseconds = 0;
  const absl::Status status =
      CudaStatus(cudaEventElapsedTime(&milliseconds, from, to),
                 "cudaEventElapsedTime", gpu_);
  if (!status.ok()) return status;
  return milliseconds * kSecondsPerMillisecond;
}

absl::Status CudaTiming::Record(cudaEvent_t event, GpuStream stream) const {
  const OnGpu on_gpu(gpu_);
  return CudaStatus(cudaEventRecord(event, HandleOf(stream)), "cudaEventRecord",
                    gpu_);
}

}  // namespace tutti
