#ifndef TUTTI_OUTFEED_REMOTE_OUTFEED_DEVICE_H_
#define TUTTI_OUTFEED_REMOTE_OUTFEED_DEVICE_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "framework/device.h"
#include "framework/dtype.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"
#include "outfeed/outfeed_connection.h"
#include "outfeed/outfeed_registry.h"

namespace tutti {

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

#endif  // TUTTI_OUTFEED_REMOTE_OUTFEED_DEVICE_H_
