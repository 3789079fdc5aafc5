#ifndef TUTTI_DEVICE_H_
#define TUTTI_DEVICE_H_

// Devices: names, attributes and links; a device's memory; the stream on which
// a device runs steps in its own order; and its outfeed channel. A runtime
// derives its devices from Device. A DeviceManager owns the devices of this
// process. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/environment.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Parts of a full device name, such as
// "/job:worker/replica:0/task:3/device:CPU:1".
struct DeviceName {
  std::string job;
  int replica = 0;
  int task = 0;
  std::string type;
  int index = 0;

  // Errors: INVALID_ARGUMENT with the name given and the form wanted.
  static absl::StatusOr<DeviceName> Parse(absl::string_view full_name);

  std::string ToString() const;

  // Returns "/job:worker/replica:0/task:3": the name of the process that owns
  // the device.
  std::string TaskName() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

// A point in the work of a device. Steps that wait for the fence run after all
// work before it. Only devices of the same kind look inside.
class DeviceFence {
 public:
  virtual ~DeviceFence() = default;
};

// Memory of a device that holds bytes from or for other processes, without a
// copy in host memory. Only devices of the same kind look inside. The memory
// can be written at once. It returns to the device when the last reference is
// destroyed. Code that starts a write keeps a reference until the write has
// ended.
class DeviceLanding {
 public:
  virtual ~DeviceLanding() = default;
  virtual absl::Span<std::byte> bytes() const = 0;
};

// Computes into = (operands[0] (+) operands[1] (+) ..., from left to right) /
// divisor. `into` is an operand, or separate from all. A device may round
// intermediate results of many operands that are floats of 8 or 16 bits, always
// at the same operands.
struct StepReduction {
  // Ops of the caller that run on GPUs. Beside a merge op `kind` is kSum and
  // has no effect; beside a final op `divisor` is 1.
  const MergeOp* custom_merge_op = nullptr;
  const FinalOp* custom_final_op = nullptr;
  int group_size = 0;  // Argument of the final op.

  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  absl::Span<const std::byte* const> operands;  // At least one.
  std::byte* into = nullptr;
  int64_t num_elements = 0;
  int64_t divisor = 1;
};

// Runs the steps of one member's execution on a device that works in its own
// order, as a GPU does on a stream. Calls enqueue steps and return. The steps
// run later, each after all earlier ones. The host never waits between two
// steps: fences order steps of different devices.
//
// Thread-safe. Steps begin when the device has done the work it had at
// Device::OpenSteps(). The buffers stay valid until CallWhenOver() calls. All
// errors come from the device.
class StepStream {
 public:
  // Enqueues steps that read `bytes`.
  using Put = absl::FunctionRef<absl::Status(const std::byte* bytes)>;
  using HostCallback = absl::AnyInvocable<void(absl::StatusOr<Tensor>) &&>;

  virtual ~StepStream() = default;

  virtual absl::Status Copy(std::byte* into, const std::byte* from,
                            size_t num_bytes) = 0;
  virtual absl::Status Reduce(const StepReduction& reduction) = 0;

  // Returns a fence behind all steps enqueued before.
  virtual absl::StatusOr<std::shared_ptr<const DeviceFence>> Mark() = 0;

  // Makes all steps enqueued later wait for the fence. Errors:
  // FAILED_PRECONDITION for a fence of another kind of device.
  virtual absl::Status WaitFor(const DeviceFence& fence) = 0;

  // Calls `put` once, inside this call, for bytes of another device of this
  // process. The bytes are valid after `written`. The steps of `put` read those
  // bytes, or a copy if the device cannot reach them. Errors: as WaitFor(); any
  // error of `put`.
  virtual absl::Status ReadPeer(absl::Span<const std::byte> bytes,
                                const DeviceFence& written, Put put) = 0;

  // Calls `put` likewise for bytes of the host, copied before this returns.
  virtual absl::Status ReadHost(absl::Span<const std::byte> bytes, Put put) = 0;

  // True if other processes may read and write landings of the device. Land(),
  // ReadLanding() and CallWhenWritten() serve this case.
  virtual bool opens_memory() const = 0;

  // Returns a landing of `num_bytes`. Null if the device has none left, or none
  // at all: then use host memory.
  virtual std::shared_ptr<DeviceLanding> Land(size_t num_bytes) = 0;

  // Calls `put` once, inside this call, for a landing of Land(). The stream
  // keeps the landing until the steps of `put` have run. These steps read the
  // bytes received, or write the bytes to send.
  virtual absl::Status ReadLanding(std::shared_ptr<DeviceLanding> landing,
                                   Put put) = 0;

  // Calls `done` once all steps enqueued before have run: then others may read
  // their results. Calls on the environment's queue or its clock's thread, or
  // inside this call with an error.
  virtual void CallWhenWritten(StatusCallback done) = 0;

  // Copies bytes of the device to host memory. `done` gets the copy, on the
  // same threads as in CallWhenWritten().
  virtual void CopyToHost(absl::Span<const std::byte> bytes,
                          HostCallback done) = 0;

  // Calls `done` on the environment's queue or its clock's thread once all
  // enqueued steps have run. If an error keeps steps from running, calls with
  // that error once none can run. Call once, last.
  virtual void CallWhenOver(StatusCallback done) = 0;
};

// Host's end of an OutfeedChannel.
class OutfeedListener {
 public:
  virtual ~OutfeedListener() = default;

  // Takes arrays from the front of `arrays`: moves out as many as it can keep,
  // and returns their number. `arrays` has at least one entry: all transferred
  // arrays not taken yet, in order. If some are left, the next call comes after
  // OutfeedChannel::Resume().
  //
  // The calls of one channel come one at a time, with no lock held, on the
  // thread that transfers, resumes or ends a copy. Must not block.
  virtual size_t TakeArrays(absl::Span<Tensor> arrays) = 0;

  // Reports that nothing more comes, because the device is lost or its stream
  // broken. Called once, in the same way as TakeArrays(), after all earlier
  // arrays were taken. The listener ends the stream by OutfeedChannel::End()
  // with this status. Only channels that can lose their device call it.
  virtual void OnFailed(absl::Status status) = 0;
};

// Carries arrays from one device to the host: first in, first out, bounded. A
// stream lasts from TransferFromOutfeed() of a listener to its End(); then
// another stream may begin. The channel does not interpret the arrays.
//
// Thread-safe. Arrays in host memory go by reference: see TransferToOutfeed().
// The channel holds a listener until the end of its stream.
class OutfeedChannel {
 public:
  // Largest number of bytes of one transfer.
  static constexpr int64_t kMaxTransferBytes = int64_t{1} << 62;

  struct Tallies {
    size_t queued_arrays = 0;
    int64_t queued_bytes = 0;  // Bytes of the queued arrays.
    size_t waiting_transfers = 0;
  };

  virtual ~OutfeedChannel() = default;

  // Device's side: moves `arrays` into the channel, all at once, after all
  // earlier transfers. `done`, which may be null, runs with OK once the arrays
  // are in the channel: inside this call if there is room, else later. Inside
  // another such `done`, it runs only after that `done` has ended.
  //
  // From the call on, the bytes belong to the channel, then to the host. Nobody
  // may write them while a tensor shares them, and `done` does not signal that
  // end. Arrays in a memory of the device are copied (Device::CopyToHost) and
  // then free again; a transfer enters the channel once it is copied.
  //
  // On an error nothing is transferred. Errors: FAILED_PRECONDITION if there
  // was no listener yet; the status with which the stream ended, also for a
  // transfer that was waiting then; INVALID_ARGUMENT above kMaxTransferBytes.
  virtual void TransferToOutfeed(absl::Span<Tensor> arrays,
                                 StatusCallback done) = 0;

  // Host's side: starts a stream to `listener`, which gets all transfers from
  // now on, but not inside this call. Errors: FAILED_PRECONDITION if the
  // channel has a listener.
  virtual absl::Status TransferFromOutfeed(
      std::shared_ptr<OutfeedListener> listener) = 0;

  // Resume, Close and End do nothing unless `listener` owns the current stream.

  // Gives the listener the arrays it left. May call the listener inside this
  // call.
  virtual void Resume(const OutfeedListener& listener) = 0;

  // Transfers one last array after all others, even if there is no room. Later
  // transfers fail with `refusal`.
  virtual void Close(const OutfeedListener& listener, Tensor last,
                     absl::Status refusal) = 0;

  // Ends the stream: drops arrays that the listener has not taken. Waiting and
  // later transfers fail with `status`. A call of the listener may still be
  // running.
  virtual void End(const OutfeedListener& listener, absl::Status status) = 0;

  virtual Tallies tallies() const = 0;
};

// Direct connection to another device of the same task.
struct DeviceLink {
  int device_index = 0;
  int strength = 0;  // Larger is better; comparable within a task.

  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
};

struct DeviceLocality {
  std::vector<DeviceLink> links;

  friend bool operator==(const DeviceLocality&,
                         const DeviceLocality&) = default;
};

struct DeviceAttributes {
  DeviceName name;
  DeviceLocality locality;

  // Changes each time the device's process starts. Tells a restarted device
  // from its predecessor.
  uint64_t incarnation = 0;

  // Names of the libraries that can run collectives on the device
  // (DeviceNeeds).
  std::vector<std::string> libraries;

  // Piece of hardware that several devices may share. Devices on one piece have
  // the same text, across processes; others have different texts. Empty: not
  // shared.
  std::string unit;

  friend bool operator==(const DeviceAttributes&,
                         const DeviceAttributes&) = default;
};

// Place of the bytes of a tensor, as a device sees them.
enum class TensorPlace {
  kHost,       // The processor may read and write them.
  kDevice,     // Memory of the device.
  kElsewhere,  // Memory of another device.
};

// Holds tensors and computes on them. Thread-safe.
class Device {
 public:
  explicit Device(DeviceAttributes attributes);
  virtual ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceAttributes& attributes() const { return attributes_; }
  const std::string& full_name() const { return full_name_; }

  // Uninitialised memory of this device. Errors: as Tensor::Allocate.
  virtual absl::StatusOr<Tensor> Allocate(DType dtype,
                                          const TensorShape& shape) = 0;

  // True if the processor may read and write the bytes of the device's tensors.
  virtual bool has_host_memory() const { return true; }

  // Place of the tensor's bytes. A device with host memory takes all memory for
  // host memory. Errors: any error of the device.
  virtual absl::StatusOr<TensorPlace> PlaceOf(const Tensor& /*tensor*/) {
    return TensorPlace::kHost;
  }

  // Calls `done` with the arrays in host memory. Arrays in a memory of the
  // device are copied after the present work of its compute stream. Other
  // arrays are passed as they are. Keeps each array until it is copied. Calls
  // inside this call if nothing is copied, else as StepStream::CopyToHost().
  // Errors: INVALID_ARGUMENT for an array in the memory of another device; any
  // error of the device.
  using ArraysCallback =
      absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>) &&>;
  virtual void CopyToHost(std::vector<Tensor> arrays, ArraysCallback done);

  // Returns a stream for the steps of one execution; null if the processor runs
  // the steps. The device and the clock outlive the stream. Errors: any error
  // of the device.
  virtual absl::StatusOr<std::unique_ptr<StepStream>> OpenSteps(
      Clock& /*clock*/) {
    return nullptr;
  }

  // Channel by which work on this device sends tensors to the host. Null until
  // GiveOutfeedChannel(). outfeed/ creates the channels of CPU devices, and of
  // devices with CopyToHost(), on first use.
  std::shared_ptr<OutfeedChannel> outfeed_channel() const;

  // Sets the channel for the device's life, unless it has one. Returns the
  // device's channel.
  std::shared_ptr<OutfeedChannel> GiveOutfeedChannel(
      std::shared_ptr<OutfeedChannel> channel);

 private:
  class OutfeedSlot;

  const DeviceAttributes attributes_;
  const std::string full_name_;
  const std::unique_ptr<OutfeedSlot> outfeed_;
};

// Host memory and the processor. Several CPU devices may share one machine: a
// device is a member of groups, not a core.
class CpuDevice : public Device {
 public:
  using Device::Device;

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return Tensor::Allocate(dtype, shape);
  }
};

// Owns the devices of this process and finds them by name. Immutable, so
// thread-safe. A Device* is valid for the lifetime of the manager.
class DeviceManager {
 public:
  // Errors: INVALID_ARGUMENT for an empty list or a null device; ALREADY_EXISTS
  // for two devices with one name.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> Create(
      std::vector<std::unique_ptr<Device>> devices);

  // Creates CPU devices 0..n-1 of /job:localhost/replica:0/task:t for each t,
  // all in this process, with incarnations from `random`. Use several tasks to
  // try a layout without processes. Errors: INVALID_ARGUMENT for a count below
  // one or a null `random`.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> CreateCpu(
      int num_tasks, int devices_per_task, Random* random);

  // Likewise, with task_sizes[t] devices in task t.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> CreateCpu(
      absl::Span<const int> task_sizes, Random* random);

  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

  // Errors: NOT_FOUND naming some of the known devices.
  absl::StatusOr<Device*> Find(absl::string_view full_name) const;

  // True if `device` belongs to this manager. Does not read `*device`.
  bool Owns(const Device* device) const { return known_.contains(device); }

  // Devices in the order given to Create.
  const std::vector<Device*>& devices() const { return in_order_; }

 private:
  explicit DeviceManager(std::vector<std::unique_ptr<Device>> devices);

  std::vector<std::unique_ptr<Device>> owned_;
  std::vector<Device*> in_order_;
  absl::flat_hash_map<absl::string_view, Device*> by_name_;
  absl::flat_hash_set<const Device*> known_;
};

}  // namespace tutti

#endif  // TUTTI_DEVICE_H_
