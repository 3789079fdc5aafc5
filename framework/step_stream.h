#ifndef TUTTI_FRAMEWORK_STEP_STREAM_H_
#define TUTTI_FRAMEWORK_STEP_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/dtype.h"
#include "framework/reduction_kind.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"

namespace tutti {

// A point in what a device was told to do. What waits for it runs when all that
// lies before it has run. Only devices of its kind look into it.
class DeviceFence {
 public:
  virtual ~DeviceFence() = default;
};

// Memory of a device where bytes from or for other processes may lie, without
// the host's in between. Only devices of its kind look into it. It can be
// written to at once, and is the device's again when nobody has it any more:
// also whoever lets something write there keeps it as long as that.
class DeviceLanding {
 public:
  virtual ~DeviceLanding() = default;
  virtual absl::Span<std::byte> bytes() const = 0;
};

// into = (operands[0] (+) operands[1] (+) ..., from left to right) / divisor.
// `into` is an operand, or apart from all. Of many operands a device may round
// float16 and bfloat16 in between, always at the same ones.
struct StepReduction {
  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  absl::Span<const std::byte* const> operands;  // At least one.
  std::byte* into = nullptr;
  int64_t num_elements = 0;
  int64_t divisor = 1;
};

// Where the steps of one member's execution run if the device does its work in
// an order of its own, as a GPU does on a stream. Calls put steps there and
// return; the steps run later, each after all that was put there before it. So
// nobody waits between two steps: what another device's steps must wait for, or
// must be waited for, is a fence.
//
// Thread-safe. Steps begin when what the device was to compute by
// Device::OpenSteps() is done. The buffers stay valid until CallWhenOver()
// calls. Errors are those of the device.
class StepStream {
 public:
  // Puts steps that read `bytes`.
  using Put = absl::FunctionRef<absl::Status(const std::byte* bytes)>;
  using HostCallback = absl::AnyInvocable<void(absl::StatusOr<Tensor>) &&>;

  virtual ~StepStream() = default;

  virtual absl::Status Copy(std::byte* into, const std::byte* from,
                            size_t num_bytes) = 0;
  virtual absl::Status Reduce(const StepReduction& reduction) = 0;

  // Behind all that was put here.
  virtual absl::StatusOr<std::shared_ptr<const DeviceFence>> Mark() = 0;

  // What is put here from now on waits for the fence. Errors:
  // FAILED_PRECONDITION if it is not one of this kind of device.
  virtual absl::Status WaitFor(const DeviceFence& fence) = 0;

  // Calls `put` once, inside, for the bytes of another device of this process,
  // which are there after `written`. The steps it puts read those bytes or,
  // where the device does not reach them, a copy. Errors: as WaitFor(); those
  // of `put`.
  virtual absl::Status ReadPeer(absl::Span<const std::byte> bytes,
                                const DeviceFence& written, Put put) = 0;

  // The same for bytes of the host, which are copied before this returns.
  virtual absl::Status ReadHost(absl::Span<const std::byte> bytes, Put put) = 0;

  // Whether other processes may read and write landings of the device: what the
  // next three are for.
  virtual bool opens_memory() const = 0;

  // A landing of so many bytes; null where there is none, or no more: the
  // host's memory will do.
  virtual std::shared_ptr<DeviceLanding> Land(size_t num_bytes) = 0;

  // Calls `put` once, inside, for a landing of Land(), which is kept until the
  // steps it puts have run. They read what has come there, or write what is to
  // be sent.
  virtual absl::Status ReadLanding(std::shared_ptr<DeviceLanding> landing,
                                   Put put) = 0;

  // Calls `done` once all has run that was put here by now: then others may
  // read what that wrote. On the environment's queue or its clock's thread, or
  // inside the call with an error.
  virtual void CallWhenWritten(StatusCallback done) = 0;

  // Copies bytes of the device to memory of the host. `done` gets them once
  // they are there, on the same threads.
  virtual void CopyToHost(absl::Span<const std::byte> bytes,
                          HostCallback done) = 0;

  // Calls `done` on the environment's queue or its clock's thread once all has
  // run that was put here, or nothing will any more: with the error that keeps
  // it from running. Call once, as the last thing.
  virtual void CallWhenOver(StatusCallback done) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_STEP_STREAM_H_
