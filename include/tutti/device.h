#ifndef TUTTI_DEVICE_H_
#define TUTTI_DEVICE_H_

// Devices: names, attributes and links; the memory of a device; the stream
// on which a device runs steps in an order of its own; and its outfeed
// channel. A runtime derives its devices from Device, and a DeviceManager
// owns the devices of this process. Thread-safe.

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

// The parts of a full device name, as in
// "/job:worker/replica:0/task:3/device:CPU:1".
struct DeviceName {
  std::string job;
  int replica = 0;
  int task = 0;
  std::string type;
  int index = 0;

  // Errors: INVALID_ARGUMENT saying what was given and the form wanted.
  static absl::StatusOr<DeviceName> Parse(absl::string_view full_name);

  std::string ToString() const;

  // "/job:worker/replica:0/task:3": the process that owns the device.
  std::string TaskName() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

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

// The host's end of an OutfeedChannel.
class OutfeedListener {
 public:
  virtual ~OutfeedListener() = default;

  // `arrays`, at least one, are what was transferred and not taken, in that
  // order. Takes as many as it can keep, from the front: moves them out and
  // returns their number. If it leaves some it is not called again until
  // OutfeedChannel::Resume().
  //
  // The calls of one channel come one at a time, with no lock of its held, on
  // the thread of who transfers or resumes. Must not block.
  virtual size_t TakeArrays(absl::Span<Tensor> arrays) = 0;

  // Nothing more comes, because the device is lost or its stream broken: called
  // as TakeArrays() is, once, after all that came before was taken. The
  // listener ends the stream, by OutfeedChannel::End() with this status. Only
  // channels that can lose their device call it.
  virtual void OnFailed(absl::Status status) = 0;
};

// The way of arrays from one device to the host: first in, first out, bounded.
// It is a stream from the TransferFromOutfeed() of a listener to its End(), and
// then may become another. What the arrays mean is not its business.
//
// Thread-safe. The arrays go by reference where the device's memory is the
// host's: see TransferToOutfeed(). A listener is held until the end of its
// stream.
class OutfeedChannel {
 public:
  // Most bytes that one transfer may have.
  static constexpr int64_t kMaxTransferBytes = int64_t{1} << 62;

  struct Tallies {
    size_t queued_arrays = 0;
    int64_t queued_bytes = 0;  // Of those.
    size_t waiting_transfers = 0;
  };

  virtual ~OutfeedChannel() = default;

  // The device's side. Moves `arrays` into the channel, all at once, after all
  // transfers before. `done`, which may be null, runs with OK when they are in:
  // inside this call if there is room, later if not; but where this is called
  // by another such `done`, once that one has ended. Their bytes are the
  // channel's, and then the host's, from the call on: nobody may write them as
  // long as a tensor shares them. `done` says nothing of that.
  //
  // Errors, with which nothing is transferred: FAILED_PRECONDITION if nobody
  // has listened yet; the status with which the stream ended, also of a
  // transfer that waits then; INVALID_ARGUMENT above kMaxTransferBytes.
  virtual void TransferToOutfeed(absl::Span<Tensor> arrays,
                                 StatusCallback done) = 0;

  // The host's side. From now on, but not inside this call, `listener` is given
  // what is transferred. Errors: FAILED_PRECONDITION if somebody listens.
  virtual absl::Status TransferFromOutfeed(
      std::shared_ptr<OutfeedListener> listener) = 0;

  // The following do nothing if the stream is not, or no longer, `listener`'s.

  // Gives the listener what it left. May call it inside.
  virtual void Resume(const OutfeedListener& listener) = 0;

  // Transfers one more array, after all others and whether there is room or
  // not. Whatever is transferred later fails with `refusal`.
  virtual void Close(const OutfeedListener& listener, Tensor last,
                     absl::Status refusal) = 0;

  // Ends the stream: drops what the listener has not taken; what waits, and
  // what is transferred later, fails with `status`. A call of the listener may
  // still be under way.
  virtual void End(const OutfeedListener& listener, absl::Status status) = 0;

  virtual Tallies tallies() const = 0;
};

// A direct connection to another device of the same task.
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

  // Another number each time the device's process starts: tells a restarted
  // device from the one that it replaces.
  uint64_t incarnation = 0;

  // What it can call to run collectives (DeviceNeeds), by name.
  std::vector<std::string> libraries;

  // The piece of hardware that it is on, where several devices may be on one:
  // the same text for all there, whatever process they are of, and for no
  // others. Empty: it shares none.
  std::string unit;

  friend bool operator==(const DeviceAttributes&,
                         const DeviceAttributes&) = default;
};

// Where tensors live, and what is computed there. Thread-safe.
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

  // Whether the processor may read and write the bytes of its tensors.
  virtual bool has_host_memory() const { return true; }

  // For the steps of one execution, where they run in an order of the device's
  // own; null where the processor runs them. The device and the clock outlive
  // it. Errors: those of the device.
  virtual absl::StatusOr<std::unique_ptr<StepStream>> OpenSteps(
      Clock& /*clock*/) {
    return nullptr;
  }

  // Way by which work on this device hands tensors to the host. Null as long as
  // the device was given none: outfeed/ makes those of CPU devices when it
  // needs them.
  std::shared_ptr<OutfeedChannel> outfeed_channel() const;

  // The first one stays, for the device's life. Returns that.
  std::shared_ptr<OutfeedChannel> GiveOutfeedChannel(
      std::shared_ptr<OutfeedChannel> channel);

 private:
  class OutfeedSlot;

  const DeviceAttributes attributes_;
  const std::string full_name_;
  const std::unique_ptr<OutfeedSlot> outfeed_;
};

// Host memory and the processor. Several may share one machine: a device is a
// member of groups, not a core.
class CpuDevice : public Device {
 public:
  using Device::Device;

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return Tensor::Allocate(dtype, shape);
  }
};

// Owns the devices of this process and finds them by name. Immutable after
// construction, so thread-safe; a Device* is valid as long as the manager.
class DeviceManager {
 public:
  // Errors: INVALID_ARGUMENT for no device or a null one, ALREADY_EXISTS for
  // two of one name.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> Create(
      std::vector<std::unique_ptr<Device>> devices);

  // CPU devices 0..n-1 of /job:localhost/replica:0/task:t for each t, in this
  // process, with incarnations from `random`. Several tasks serve to try a
  // layout without processes. Errors: INVALID_ARGUMENT for a count below one or
  // no `random`.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> CreateCpu(
      int num_tasks, int devices_per_task, Random* random);

  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

  // Errors: NOT_FOUND naming some of the known devices.
  absl::StatusOr<Device*> Find(absl::string_view full_name) const;

  // Whether it is one of these, not of another manager. Does not look at it.
  bool Owns(const Device* device) const { return known_.contains(device); }

  // In the order given to Create.
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
