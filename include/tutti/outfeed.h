#ifndef TUTTI_OUTFEED_H_
#define TUTTI_OUTFEED_H_

// Outfeeds: tensors from devices to callbacks of the host. An OutfeedSender
// frames items, an OutfeedReceiver calls back with each, in order and within
// a bound on the bytes that queue. AddOutfeed() puts outfeeds into a host's
// graph, AllReduceObserver streams results of collectives, and OutfeedExport
// and RemoteOutfeedDevice are the ends of an outfeed between processes.

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

// Of one device of a receiver.
struct OutfeedStatistics {
  uint64_t num_items = 0;  // Whose callback has returned OK.

  // Of payload, that count against the receiver's limit: those received, that
  // of the running callback, and that which is granted the next room.
  int64_t queued_bytes = 0;

  // How long nothing was received from the device because there was no room.
  absl::Duration blocked_time;

  // OK while the stream goes on and after its shutdown. Otherwise its error,
  // which senders get too.
  absl::Status status;

  // Nothing more is delivered. Not before Start().
  bool has_ended = false;
};

// Gets one item of the outfeed of `device`; may take the arrays. What it
// returns other than OK, or throws, ends the device's stream.
using OutfeedCallback = std::function<absl::Status(
    Device& device, uint32_t consumer_id, absl::Span<Tensor> arrays)>;

// What one array of an item is.
struct ArraySpec {
  DType dtype = DType::kFloat32;
  TensorShape shape;

  std::string ToString() const;  // "float32[2,3]"

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

// What the items with one consumer id are.
struct OutfeedConsumer {
  uint32_t id = 0;
  std::vector<ArraySpec> arrays;
  int64_t payload_bytes = 0;  // Of all arrays.
  Tensor header;              // Of every item.
};

// OK if `array` is as `consumer.arrays[index]` says. Errors: INVALID_ARGUMENT
// with what was wanted and found. REQUIRES: such an index.
absl::Status CheckArray(const OutfeedConsumer& consumer, size_t index,
                        const Tensor& array);

// The consumers of one receiver. What an id stands for never changes, and no id
// is forgotten. Thread-safe.
class OutfeedRegistry {
 public:
  OutfeedRegistry();
  ~OutfeedRegistry();
  OutfeedRegistry(const OutfeedRegistry&) = delete;
  OutfeedRegistry& operator=(const OutfeedRegistry&) = delete;

  // The same again is fine. Errors: INVALID_ARGUMENT for the reserved id, for
  // other arrays than before, and for more bytes than one transfer may have.
  absl::Status Register(uint32_t consumer_id, std::vector<ArraySpec> arrays);

  // Lives as long as this. Errors: NOT_FOUND if nobody registered the id.
  absl::StatusOr<const OutfeedConsumer*> Find(uint32_t consumer_id) const;

 private:
  class Consumers;

  const std::unique_ptr<Consumers> consumers_;
};

// The host's side of the outfeeds of some devices: calls back with every item
// that an OutfeedSender sends, or that is written into a device's channel.
//
// The items of a device come in the order in which they were sent, one callback
// at a time; those of different devices at once. Callbacks run as works of the
// environment's queue, with no lock held, and may take as long as they like: up
// to a limit on their bytes, which all devices share, items queue meanwhile;
// then whoever sends waits for room. An item that does not fit makes those
// behind it wait too, on whatever device, so that it is not overtaken for ever.
// One above the limit is received when nothing else is queued.
//
// A protocol error (no header, an id that is not registered, an array that is
// not as registered, a shutdown in the middle of an item) ends the stream of
// its device after the items before it; a callback that fails or throws, at
// once, without those behind it. Senders then get the same status. Other
// devices go on.
//
// Thread-safe; starts no thread and never blocks. At one time a device has one
// receiver.
class OutfeedReceiver {
 public:
  struct Options {
    // Each once. They outlive the end, as do what the callback uses and the
    // environment: see Shutdown().
    std::vector<Device*> devices;
    OutfeedCallback callback;
    int64_t max_queued_bytes = int64_t{256} << 20;  // Of payload.
    Environment environment;

    // Null: one of its own. RemoteOutfeedDevices are given the same one.
    std::shared_ptr<OutfeedRegistry> registry;
  };

  // Errors: INVALID_ARGUMENT for no device, a null one or one twice, for no
  // callback, for a limit below 1 or above OutfeedChannel::kMaxTransferBytes;
  // UNIMPLEMENTED for a device without an outfeed.
  static absl::StatusOr<std::unique_ptr<OutfeedReceiver>> Create(
      Options options);

  // As Shutdown() without `done`: items that were sent are still delivered
  // after it.
  ~OutfeedReceiver();
  OutfeedReceiver(const OutfeedReceiver&) = delete;
  OutfeedReceiver& operator=(const OutfeedReceiver&) = delete;

  // What may be sent. Ids can be registered at any time before they are sent.
  const std::shared_ptr<OutfeedRegistry>& registry() const { return registry_; }

  // Listens to all devices; sends before it fail. Once. Errors:
  // FAILED_PRECONDITION after another Start() or a Shutdown(), or if a device
  // has a receiver that has not ended: then this one ends on all devices.
  absl::Status Start();

  // Ends the streams of all devices: sends after it fail with CANCELLED; those
  // before, also those that still wait for room, are delivered. At any time,
  // any number of times, from callbacks too.
  //
  // `done`, which may be null, runs when the last callback has ended, inside
  // this call if it has: with OK or the error of the first stream that failed.
  // Then another receiver can be started on the devices.
  void Shutdown(StatusCallback done);

  // Statistics of `options.devices[device_index]`. REQUIRES: such an index.
  OutfeedStatistics statistics(size_t device_index) const;

  // Payload of all devices.
  int64_t queued_bytes() const;

 private:
  class Streams;

  OutfeedReceiver(std::shared_ptr<OutfeedRegistry> registry,
                  std::unique_ptr<Streams> streams);

  const std::shared_ptr<OutfeedRegistry> registry_;
  const std::unique_ptr<Streams> streams_;
};

// The device's side of an outfeed: frames items and writes them into the
// device's channel. A value; thread-safe, and the items of one thread arrive in
// its order.
//
// No byte is copied: the callback gets the same memory. From the call on it
// belongs to the stream, and nobody may write it while a tensor of the item is
// alive anywhere; the deleter of Tensor::Wrap() tells when that is over. Who
// wants to go on with the memory sends a copy.
class OutfeedSender {
 public:
  // `registry` is that of the receiver. Errors: UNIMPLEMENTED for a device
  // without an outfeed.
  static absl::StatusOr<OutfeedSender> Create(
      Device& device, std::shared_ptr<const OutfeedRegistry> registry);

  // `done`, which may be null, runs when the item is on its way, which is at
  // once or when there is room: a device that waits for it is held back as the
  // callbacks are slow. It says nothing about the callback.
  //
  // Errors, with which nothing is sent: NOT_FOUND for an id that is not
  // registered; INVALID_ARGUMENT for arrays that are not as registered; those
  // of OutfeedChannel::TransferToOutfeed().
  void Send(uint32_t consumer_id, absl::Span<const Tensor> arrays,
            StatusCallback done) const;

  // Blocks this thread until `done` would run. Not for threads of the work
  // queue, which may be what makes room, nor from a `done`.
  absl::Status SendAndWait(uint32_t consumer_id,
                           absl::Span<const Tensor> arrays) const;

  // Adds an item to `batch`, which OutfeedChannel::TransferToOutfeed() takes:
  // many items at once cost less than one by one. Errors: as Send().
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

// Streams what chosen all-reduces yield to the consumers of an outfeed: give it
// to CollectiveExecutorMgr::SetObserver(). Each device sends its own result, as
// an item of two arrays: int64[2], the step and which execution of the instance
// in this step, and a copy of the output, taken before `done` runs; of
// segments, one tensor of the request's shape.
//
// A collective is delayed by the copies alone, each of which the member's own
// `done` waits for, and those of members whose parts end on the same thread, as
// they do within a process: a device that has `max_waiting_items` waiting for
// room in its outfeed drops what comes then, and counts it. Nor does a
// collective fail: what cannot be sent is counted, and the first reason kept.
//
// The consumers are registered when their first result is there, with its dtype
// and shape. Results of a device arrive in the order in which they ended,
// unless they did so at the same time.
//
// Thread-safe. For the life of one receiver: what is sent to a later one on the
// same devices would be unknown to it, so set another observer then, for steps
// that are new.
class AllReduceObserver : public CollectiveObserver {
 public:
  struct Selection {
    GroupKey group_key = 0;
    InstanceKey instance_key = 0;
    uint32_t consumer_id = 0;
  };
  struct Options {
    // Whose results are sent. They outlive this.
    std::vector<Device*> devices;

    std::shared_ptr<OutfeedRegistry> registry;  // That of the receiver.
    std::vector<Selection> selections;

    // Of one device; results that end at once may be a few more. Each holds as
    // many bytes as the output has.
    int max_waiting_items = 16;
  };

  // Of one device: how many results were sent, were dropped for lack of room,
  // and could not be sent, for which reason at first.
  struct Tallies {
    uint64_t num_sent = 0;
    uint64_t num_dropped = 0;
    uint64_t num_failed = 0;
    absl::Status first_error;
  };

  // Errors: INVALID_ARGUMENT for a null device, an instance that is selected
  // twice, the reserved id, no registry, and a limit below 1; UNIMPLEMENTED for
  // a device without an outfeed or whose memory the host cannot copy.
  static absl::StatusOr<std::shared_ptr<AllReduceObserver>> Create(
      const Options& options);

  // Results of other devices and instances, and of what is no all-reduce, are
  // passed over.
  void OnFinished(const Finished& finished) override;

  // REQUIRES: one of the options' devices.
  Tallies tallies(const Device& device) const;

 private:
  class Counts;
  struct Source {
    std::shared_ptr<OutfeedChannel> channel;
    OutfeedSender sender;
    std::shared_ptr<Counts> counts;  // Of what waits in the channel, too.
  };
  using InstanceId = std::pair<GroupKey, InstanceKey>;

  explicit AllReduceObserver(const Options& options);

  absl::Status AddDevice(Device* device);
  absl::Status AddSelection(const Selection& selection);
  absl::Status Send(const Source& source, uint32_t consumer_id,
                    const Finished& finished) const;

  const std::shared_ptr<OutfeedRegistry> registry_;
  const size_t max_waiting_items_;

  // Fixed when Create() returns.
  absl::flat_hash_map<const Device*, Source> sources_;
  absl::flat_hash_map<InstanceId, uint32_t> consumers_;
};

// A program that is being built, and where it will run.
struct OutfeedProgram {
  HostCallBuilder& builder;
  Device& device;  // Outlives the program.

  // That of the receiver that listens to the device when the program runs.
  std::shared_ptr<OutfeedRegistry> registry;
};

// An array of the program, in the host's memory.
struct OutfeedArray {
  ArraySpec spec;
  Region region;  // As many bytes as `spec` has; none if it is empty.
};

// Registers the arrays for the consumer, and adds nodes that send them as an
// item whenever the program comes there: one for the header and, if there are
// arrays, one after it that sends copies of them. Each is complete when the
// device's channel has room, so that the program is held back as the callbacks
// are slow.
//
// Returns the token: the id of the last node. `token` are the nodes that the
// item waits for: the token of the outfeed before on this device and those that
// write the arrays; whatever writes them later waits for the new token. All
// outfeeds of a device are on one chain of tokens, and nobody else sends on it
// while the program runs, since a header and its arrays stand next to each
// other in the stream.
//
// A node fails with the errors of OutfeedChannel::TransferToOutfeed(), or with
// RESOURCE_EXHAUSTED if there is no memory for a copy.
//
// Errors, with which nothing is added: those of OutfeedRegistry::Register();
// INVALID_ARGUMENT if a region has other bytes than its array; UNIMPLEMENTED
// for a device without an outfeed.
absl::StatusOr<HostCallBuilder::NodeId> AddOutfeed(
    const OutfeedProgram& program,
    absl::Span<const HostCallBuilder::NodeId> token, uint32_t consumer_id,
    absl::Span<const OutfeedArray> arrays);

// Meeting point of the two ends of an outfeed between processes: a group of two
// devices, of which the first receives and the second sends.
struct OutfeedConnection {
  // Of a step of its own, the same at both ends: its abort, or clean-up, ends
  // the connection.
  std::shared_ptr<CollectiveExecutor> executor;

  // This end's member of the group. It outlives the connection.
  Device* device = nullptr;

  // The same at both ends. Connections of one group and step, also those that
  // have ended, have different instance keys.
  GroupKey group_key = 0;
  InstanceKey instance_key = 0;

  // Of the connecting alone, until the other end has connected, too.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;
};

// The sending end of an outfeed between processes: listens to the outfeed of a
// device of this process, in the place of an OutfeedReceiver, and hands its
// items to the RemoteOutfeedDevice that the other process has connected.
//
// Sends wait in the device's channel until a receiver was started there. Then
// no more than a window of kWindowBytes, or one item above it, is on its way
// and not fetched; behind it the channel fills, and senders wait as if the
// receiver were here. Small arrays are copied, many at a time; those above 1
// KiB are lent where they lie, and belong to the stream until they were read.
//
// A receiver that is shut down, an item that is not as registered and a loss of
// the connection end the stream. Senders get the same status as locally, or
// what became of the connection.
//
// Thread-safe; starts no thread and never blocks. Destruction at any time: a
// stream that has not ended ends at both ends with CANCELLED. Another one, with
// another connection, can be made for the device when this one has ended.
class OutfeedExport {
 public:
  // Of payload and what goes with it.
  static constexpr int64_t kWindowBytes = int64_t{1} << 20;

  struct Options {
    OutfeedConnection connection;

    // That of the device's OutfeedSenders.
    std::shared_ptr<const OutfeedRegistry> registry;

    // May be null. Runs once when the stream has ended and every byte that it
    // had lent, or kept of an item half read, is free again, possibly after the
    // destruction: with OK after an orderly end, when all that was sent is at
    // the receiving process; else with the stream's error. Not if Connect()
    // fails.
    StatusCallback ended;
  };
  using ConnectCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::unique_ptr<OutfeedExport>>) &&>;

  // Waits for the other end, and listens from then on. `done` runs on any
  // thread. Errors: INVALID_ARGUMENT for a null part; UNIMPLEMENTED for a
  // device without an outfeed; FAILED_PRECONDITION if somebody listens to it;
  // those of CollectiveExecutor::Prepare().
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

// The receiving end of an outfeed between processes: stands for a device of
// another process, with its name and attributes, whose outfeed an OutfeedExport
// sends there. An OutfeedReceiver takes it as it takes devices of this process,
// and everything that it promises holds; nothing else runs on it.
//
// An item is received into host memory, whole and before the receiver counts
// it: besides what the receiver holds, up to 1 MiB or one item waits here for
// its room, as much or one more item is on its way, and eight parcels of 4 KiB.
// Nothing more is asked for until there is room.
//
// When the connection is lost, or either end breaks off, the receiver gets the
// items that had come, and then the stream ends with that status. A connection
// is for one stream: a second receiver's Start() fails with
// FAILED_PRECONDITION; make another connection for it.
//
// Thread-safe. Destroyed when the receiver on it, if any was started, has
// ended; it ends a connection that has not, so that the sending end hears of
// CANCELLED.
class RemoteOutfeedDevice : public Device {
 public:
  struct Options {
    OutfeedConnection connection;

    // That of the OutfeedReceiver, OutfeedReceiver::Options::registry. What the
    // other end sends is registered there: an id stands for the same arrays on
    // all of a receiver's devices, or the stream of this one ends.
    std::shared_ptr<OutfeedRegistry> registry;
  };
  using ConnectCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::unique_ptr<RemoteOutfeedDevice>>) &&>;

  // Waits for the other end. `done` runs on any thread. Errors:
  // INVALID_ARGUMENT for a null part; those of
  // CollectiveExecutor::Prepare().
  static void Connect(Options options, ConnectCallback done);

  ~RemoteOutfeedDevice() override;

  // Memory of this process.
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
