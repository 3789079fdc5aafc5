#ifndef TUTTI_OUTFEED_H_
#define TUTTI_OUTFEED_H_

// Outfeeds: tensors from devices to callbacks on the host. An OutfeedSender
// frames items. An OutfeedReceiver calls back with each item, in order and
// within a bound on queued bytes. AddOutfeed() adds outfeeds to a host's graph.
// AllReduceObserver streams results of collectives. OutfeedExport and
// RemoteOutfeedDevice are the ends of an outfeed between processes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/lowering.h"
#include "tutti/tensor.h"

namespace tutti {

// Statistics of one device of a receiver.
struct OutfeedStatistics {
  uint64_t num_items = 0;  // Callback returned OK.

  // Payload that counts against the receiver's limit: received items, the item
  // of the running callback, and the item that gets the next free room.
  int64_t queued_bytes = 0;

  // Time during which nothing was received from the device for lack of room.
  absl::Duration blocked_time;

  // OK while the stream continues and after its shutdown. Otherwise its error,
  // which senders also get.
  absl::Status status;

  // Set once nothing more is delivered. False before Start().
  bool has_ended = false;
};

// Gets one item of the outfeed of `device`; may take the arrays. An error or an
// exception ends the device's stream.
using OutfeedCallback = std::function<absl::Status(
    Device& device, uint32_t consumer_id, absl::Span<Tensor> arrays)>;

// Dtype and shape of one array of an item.
struct ArraySpec {
  DType dtype = DType::kFloat32;
  TensorShape shape;

  std::string ToString() const;  // "float32[2,3]"

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

// Format of the items with one consumer id.
struct OutfeedConsumer {
  uint32_t id = 0;
  std::vector<ArraySpec> arrays;
  int64_t payload_bytes = 0;  // Sum over all arrays.
  Tensor header;              // Sent with every item.
};

// Checks that `array` matches `consumer.arrays[index]`. Errors:
// INVALID_ARGUMENT with both formats. REQUIRES: `index` is valid.
absl::Status CheckArray(const OutfeedConsumer& consumer, size_t index,
                        const Tensor& array);

// Consumers of one receiver. The meaning of an id never changes, and no id is
// removed. Thread-safe.
class OutfeedRegistry {
 public:
  OutfeedRegistry();
  ~OutfeedRegistry();
  OutfeedRegistry(const OutfeedRegistry&) = delete;
  OutfeedRegistry& operator=(const OutfeedRegistry&) = delete;

  // Registers a consumer; repeating the same call is fine. Errors:
  // INVALID_ARGUMENT for the reserved id, for arrays that differ from before,
  // and for more bytes than one transfer may have.
  absl::Status Register(uint32_t consumer_id, std::vector<ArraySpec> arrays);

  // Consumer with this id; lives as long as the registry. Errors: NOT_FOUND if
  // the id is not registered.
  absl::StatusOr<const OutfeedConsumer*> Find(uint32_t consumer_id) const;

 private:
  class Consumers;

  const std::unique_ptr<Consumers> consumers_;
};

// Host's side of the outfeeds of some devices: calls back with every item that
// an OutfeedSender sends or that is written into a device's channel.
//
// The items of one device come in the order of their sends, one callback at a
// time. Callbacks of different devices run concurrently. Callbacks run on the
// environment's queue, with no lock held, and may take any time. Meanwhile
// items queue, up to a limit on their bytes that all devices share; beyond it,
// senders wait for room.
//
// An item that does not fit also blocks later items of all devices, so that
// none overtakes it for ever. An item above the limit is received when nothing
// else is queued.
//
// A protocol error ends the stream of its device after the items before it: no
// header, an unregistered id, an array that differs from its registration, or a
// shutdown in the middle of an item. A callback that fails or throws ends the
// stream at once, without the items behind it. Senders then get the same
// status. Other devices continue.
//
// Thread-safe; starts no thread and never blocks. A device has one receiver at
// a time.
class OutfeedReceiver {
 public:
  struct Options {
    // Devices, each once. They outlive the end of the streams; so do the
    // environment and everything the callback uses: see Shutdown().
    std::vector<Device*> devices;
    OutfeedCallback callback;
    int64_t max_queued_bytes = int64_t{256} << 20;  // Payload only.
    Environment environment;

    // Null: the receiver creates a registry. RemoteOutfeedDevices get the same
    // one.
    std::shared_ptr<OutfeedRegistry> registry;
  };

  // Errors: INVALID_ARGUMENT for no device, a null device or a device listed
  // twice; for no callback; for a limit below 1 or above
  // OutfeedChannel::kMaxTransferBytes. UNIMPLEMENTED for a device without an
  // outfeed.
  static absl::StatusOr<std::unique_ptr<OutfeedReceiver>> Create(
      Options options);

  // Calls Shutdown() without `done`: items sent before are still delivered
  // afterwards.
  ~OutfeedReceiver();
  OutfeedReceiver(const OutfeedReceiver&) = delete;
  OutfeedReceiver& operator=(const OutfeedReceiver&) = delete;

  // Registry of this receiver. Register an id at any time before its first
  // send.
  const std::shared_ptr<OutfeedRegistry>& registry() const { return registry_; }

  // Listens to all devices; earlier sends fail. Call once. Errors:
  // FAILED_PRECONDITION after another Start() or a Shutdown(), or if a device
  // has a receiver that has not ended. Then this receiver ends on all devices.
  absl::Status Start();

  // Ends the streams of all devices. Later sends fail with CANCELLED. Earlier
  // items, also those that still wait for room, are delivered. May be called at
  // any time, repeatedly, and from callbacks.
  //
  // `done`, which may be null, runs once the last callback has ended, possibly
  // inside this call. It gets OK or the error of the first stream that failed.
  // Then another receiver can start on the devices.
  void Shutdown(StatusCallback done);

  // Statistics of `options.devices[device_index]`. REQUIRES: the index is
  // valid.
  OutfeedStatistics statistics(size_t device_index) const;

  // Queued payload of all devices.
  int64_t queued_bytes() const;

 private:
  class Streams;

  OutfeedReceiver(std::shared_ptr<OutfeedRegistry> registry,
                  std::unique_ptr<Streams> streams);

  const std::shared_ptr<OutfeedRegistry> registry_;
  const std::unique_ptr<Streams> streams_;
};

// Device's side of an outfeed: frames items and writes them into the device's
// channel. A value; thread-safe. The items of one thread arrive in order.
//
// No byte of host memory is copied: the callback gets the same memory. It gets
// copies of arrays in a memory of the device (Device::CopyToHost). From the
// call on, the memory belongs to the stream. Nobody may write it while a tensor
// of the item exists anywhere, or until it is copied; the deleter of
// Tensor::Wrap() signals the end. Send a copy if you need the memory earlier.
class OutfeedSender {
 public:
  // `registry` is the receiver's. Errors: UNIMPLEMENTED for a device without an
  // outfeed.
  static absl::StatusOr<OutfeedSender> Create(
      Device& device, std::shared_ptr<const OutfeedRegistry> registry);

  // Sends an item. `done`, which may be null, runs when the item is in the
  // channel: at once, or when there is room. A device that waits for `done` is
  // slowed down to the speed of the callbacks. `done` does not depend on the
  // item's callback.
  //
  // On an error nothing is sent. Errors: NOT_FOUND for an unregistered id;
  // INVALID_ARGUMENT for arrays that differ from the registration; errors of
  // OutfeedChannel::TransferToOutfeed(). If an item cannot be copied for lack
  // of memory or because it is in the memory of another device, the item fails
  // alone. Other errors of a copy end the stream, as a lost device.
  void Send(uint32_t consumer_id, absl::Span<const Tensor> arrays,
            StatusCallback done) const;

  // Blocks this thread until `done` would run. Never call it on threads of the
  // work queue, which may have to make room, nor inside a `done`.
  absl::Status SendAndWait(uint32_t consumer_id,
                           absl::Span<const Tensor> arrays) const;

  // Adds an item to `batch`, for OutfeedChannel::TransferToOutfeed(): one
  // transfer of many items costs less than many transfers. Errors: as Send().
  absl::Status AddItem(uint32_t consumer_id, absl::Span<const Tensor> arrays,
                       std::vector<Tensor>& batch) const;

  OutfeedChannel& channel() const { return *channel_; }

 private:
  OutfeedSender(std::shared_ptr<OutfeedChannel> channel,
                std::shared_ptr<const OutfeedRegistry> registry)
      : channel_(std::move(channel)), registry_(std::move(registry)) {}

  absl::StatusOr<const OutfeedConsumer*> Check(
      uint32_t consumer_id, absl::Span<const Tensor> arrays) const;

  std::shared_ptr<OutfeedChannel> channel_;
  std::shared_ptr<const OutfeedRegistry> registry_;
};

// Streams the results of chosen all-reduces to the consumers of an outfeed;
// pass it to CollectiveExecutorMgr::SetObserver(). Each device sends its result
// as an item of two arrays. The first is int64[2]: the step, and the number of
// the instance's execution in this step. The second is a copy of the output,
// taken before `done` runs; with segments, one tensor of the request's shape.
//
// A collective is delayed only by copies. A member's `done` waits for its copy,
// and for copies of members whose parts end on the same thread, as within a
// process. A device with `max_waiting_items` waiting for room in its outfeed
// drops further results and counts them. A collective never fails because of
// the observer: results that cannot be sent are counted, and the first error is
// kept.
//
// A consumer is registered with its first result, with that dtype and shape.
// Results of a device arrive in the order in which they ended, unless they
// ended at the same time.
//
// Thread-safe. Serves one receiver: a later receiver on the same devices would
// not know its ids. Set another observer then, for new steps.
class AllReduceObserver : public CollectiveObserver {
 public:
  struct Selection {
    GroupKey group_key = 0;
    InstanceKey instance_key = 0;
    uint32_t consumer_id = 0;
  };
  struct Options {
    // Devices whose results are sent. They outlive this.
    std::vector<Device*> devices;

    std::shared_ptr<OutfeedRegistry> registry;  // The receiver's.
    std::vector<Selection> selections;

    // Limit per device; results that end at the same time may exceed it
    // slightly. Each item holds as many bytes as the output.
    int max_waiting_items = 16;
  };

  // Counts of one device: results sent, dropped for lack of room, and failed,
  // with the first error.
  struct Tallies {
    uint64_t num_sent = 0;
    uint64_t num_dropped = 0;
    uint64_t num_failed = 0;
    absl::Status first_error;
  };

  // Errors: INVALID_ARGUMENT for a null device, an instance selected twice, the
  // reserved id, no registry, or a limit below 1; UNIMPLEMENTED for a device
  // without an outfeed.
  static absl::StatusOr<std::shared_ptr<AllReduceObserver>> Create(
      const Options& options);

  // Ignores results of other devices, other instances and other collective
  // types.
  void Observe(const Finished& finished, Work shown) override;
  void OnFinished(const Finished& finished) override {
    Observe(finished, [] {});
  }

  // REQUIRES: `device` is in Options::devices.
  Tallies tallies(const Device& device) const;

 private:
  class Counts;
  struct Source {
    std::shared_ptr<OutfeedChannel> channel;
    OutfeedSender sender;
    std::shared_ptr<Counts> counts;  // Includes items that wait in the channel.
  };
  using InstanceId = std::pair<GroupKey, InstanceKey>;
  using StepAndExecution = std::array<int64_t, 2>;

  explicit AllReduceObserver(const Options& options);

  absl::Status AddDevice(Device* device);
  absl::Status AddSelection(const Selection& selection);
  absl::Status Send(const Source& source, uint32_t consumer_id,
                    const StepAndExecution& numbers,
                    absl::StatusOr<Tensor> result) const;

  const std::shared_ptr<OutfeedRegistry> registry_;
  const size_t max_waiting_items_;

  // Constant after Create().
  absl::flat_hash_map<const Device*, Source> sources_;
  absl::flat_hash_map<InstanceId, uint32_t> consumers_;
};

// A program under construction, and the device that runs it.
struct OutfeedProgram {
  HostCallBuilder& builder;
  Device& device;  // Outlives the program.

  // Registry of the receiver that listens to the device when the program runs.
  std::shared_ptr<OutfeedRegistry> registry;
};

// An array of the program, in host memory.
struct OutfeedArray {
  ArraySpec spec;
  Region region;  // Same size as `spec`; none if empty.
};

// Registers the arrays for the consumer, and adds nodes that send them as an
// item: one node for the header, then, if there are arrays, one that sends
// copies of them. Each node is complete when the device's channel has room, so
// slow callbacks slow the program down.
//
// Returns the token: the id of the last node. `token` lists the nodes that the
// item waits for: the token of the previous outfeed on this device, and the
// nodes that write the arrays. Nodes that write the arrays later wait for the
// returned token. All outfeeds of a device form one chain of tokens. Nobody
// else sends on the device while the program runs, because a header and its
// arrays are adjacent in the stream.
//
// A node fails with the errors of OutfeedChannel::TransferToOutfeed(), or with
// RESOURCE_EXHAUSTED if there is no memory for a copy.
//
// On an error nothing is added. Errors: as OutfeedRegistry::Register();
// INVALID_ARGUMENT if the sizes of a region and its array differ; UNIMPLEMENTED
// for a device without an outfeed.
absl::StatusOr<HostCallBuilder::NodeId> AddOutfeed(
    const OutfeedProgram& program,
    absl::Span<const HostCallBuilder::NodeId> token, uint32_t consumer_id,
    absl::Span<const OutfeedArray> arrays);

// Meeting point of the two ends of an outfeed between processes: a group of two
// devices. The first receives and the second sends.
struct OutfeedConnection {
  // Executor of a step that only this connection uses, the same step at both
  // ends. Its abort or clean-up ends the connection.
  std::shared_ptr<CollectiveExecutor> executor;

  // This end's member of the group. Outlives the connection.
  Device* device = nullptr;

  // Keys, equal at both ends. Connections of one group and step have different
  // instance keys, even after they have ended.
  GroupKey group_key = 0;
  InstanceKey instance_key = 0;

  // Limits of Connect() only, until the other end has connected, too.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;
};

// Sending end of an outfeed between processes. Listens to the outfeed of a
// device of this process, in place of an OutfeedReceiver. Sends its items to
// the RemoteOutfeedDevice that the other process has connected.
//
// Sends wait in the device's channel until the other process starts a receiver.
// From then on, at most kWindowBytes, or one larger item, are sent and not yet
// received. Behind this window the channel fills, and senders wait as with a
// local receiver. Small arrays are copied, many at a time. Arrays above 1 KiB
// are sent without a copy, and belong to the stream until they were read.
//
// The stream ends if the receiver is shut down, if an item differs from its
// registration, or if the connection is lost. Senders get the same status as
// locally, or the connection's error.
//
// Thread-safe; starts no thread and never blocks. May be destroyed at any time:
// an active stream then ends at both ends with CANCELLED. After the end of this
// stream, another export with another connection can be made for the device.
class OutfeedExport {
 public:
  // Payload and framing.
  static constexpr int64_t kWindowBytes = int64_t{1} << 20;

  struct Options {
    OutfeedConnection connection;

    // Registry of the device's OutfeedSenders.
    std::shared_ptr<const OutfeedRegistry> registry;

    // May be null. Runs once when the stream has ended and has released every
    // byte that it sent without a copy, or kept of an incomplete item; possibly
    // after destruction. Gets OK after an orderly end, with all items at the
    // receiving process, else the stream's error. Does not run if Connect()
    // fails.
    StatusCallback ended;
  };
  using ConnectCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::unique_ptr<OutfeedExport>>) &&>;

  // Waits for the other end, then listens. `done` runs on any thread. Errors:
  // INVALID_ARGUMENT for a null part; UNIMPLEMENTED for a device without an
  // outfeed; FAILED_PRECONDITION if the device has a listener; errors of
  // CollectiveExecutor::Prepare().
  static void Connect(Options options, ConnectCallback done);

  ~OutfeedExport();
  OutfeedExport(const OutfeedExport&) = delete;
  OutfeedExport& operator=(const OutfeedExport&) = delete;

 private:
  class Core;
  explicit OutfeedExport(std::shared_ptr<Core> core);

  const std::shared_ptr<Core> core_;
};

class StreamLink;

// Receiving end of an outfeed between processes. Represents a device of another
// process, with its name and attributes, whose outfeed an OutfeedExport sends.
// An OutfeedReceiver takes it like a device of this process, with all the same
// promises. Nothing else runs on it.
//
// Items are received into host memory, complete before the receiver counts
// them. Memory besides the receiver's: up to 1 MiB, or one item, waits for
// room; as much, or one more item, is on the way; and eight parcels of 4 KiB.
// Nothing more is requested until there is room.
//
// If the connection is lost, or either end breaks off, the receiver gets the
// items that had arrived. Then the stream ends with that status. A connection
// serves one stream: Start() of a second receiver fails with
// FAILED_PRECONDITION. Make another connection for it.
//
// Thread-safe. Destroy it after the receiver on it, if one was started, has
// ended. The destructor ends an active connection; the sending end then gets
// CANCELLED.
class RemoteOutfeedDevice : public Device {
 public:
  struct Options {
    OutfeedConnection connection;

    // Registry of the OutfeedReceiver: OutfeedReceiver::Options::registry. The
    // ids that the other end sends are registered there. If an id has different
    // arrays on other devices of the receiver, the stream of this device ends.
    std::shared_ptr<OutfeedRegistry> registry;
  };
  using ConnectCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::unique_ptr<RemoteOutfeedDevice>>) &&>;

  // Waits for the other end. `done` runs on any thread. Errors:
  // INVALID_ARGUMENT for a null part; errors of CollectiveExecutor::Prepare().
  static void Connect(Options options, ConnectCallback done);

  ~RemoteOutfeedDevice() override;

  // Allocates memory of this process.
  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return Tensor::Allocate(dtype, shape);
  }

 private:
  RemoteOutfeedDevice(std::shared_ptr<StreamLink> link,
                      std::shared_ptr<OutfeedRegistry> registry);

  const std::shared_ptr<StreamLink> link_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_H_
