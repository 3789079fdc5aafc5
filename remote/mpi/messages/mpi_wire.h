#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_WIRE_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_WIRE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "proto/mpi.pb.h"
#include "tutti/peer_access.h"

namespace tutti {

// Protocol of transfers (messages in proto/mpi.proto):
//
//   receiver                                      sender
//     posts receives for the first chunks
//     pull {key, num_bytes, payload_tag}  --->    offers bytes, now or later
//                                         <---    chunks with that tag
//
//                                         <---    pulled {num_sent}
//
// Few bytes come in the message "pulled" instead. It ends every pull, also a
// cancelled one, as soon as no more bytes will be sent. It says how many bytes
// were sent with that tag, and why not all. The receiver can use the tag again
// when it has these bytes.
//
// Larger payloads do not go through MPI if the receiver can read the sender's
// memory (remote/peer_memory.h):
//
//     pull {key, num_bytes, may_read_memory}  --->  posts the bytes
//     reads the bytes, then the lease         <---  place {bytes, lease}
//     read                                    --->  releases the bytes
//
// "Read" ends the pull, unless the sender has released the bytes before: it has
// then sent a "pulled" with the reason. A receiver that cannot read the bytes
// after all posts receives. It requests the rest by "send_rest", with a tag.
//
// A task that shuts down cancels its pulls and ends those that it serves. It
// waits until all have ended, or for a limited time. Then it reports for each
// remaining pull how many bytes come. Last it says goodbye, and refuses all
// later messages.

// Largest message. Longer ones are not read: a field of a peer's message that
// is unknown here could be anything.
inline constexpr size_t kMaxMessageBytes = size_t{8} << 20;

// Largest payload inside a message.
inline constexpr size_t kMaxInlineBytes = size_t{8} << 10;

// Size of chunks; the last one may be shorter. A whole number of elements of
// every type. Part of the protocol, whose version MpiRuntime compares.
inline constexpr size_t kChunkBytes = size_t{256} << 10;

// Chunks of one pull that are sent at a time, and that are received from
// another host at a time. Within a host one chunk is received at a time, as
// Open MPI copies it during its calls.
inline constexpr size_t kChunksAtATime = 8;

// Request for bytes.
struct PullRequest {
  BufKey key;
  RecvRequest recv;              // Has no receiver.
  int payload_tag = 0;           // 0: inline, or to be read.
  bool may_read_memory = false;  // False if inline.
};

void EncodePull(const PullRequest& request, proto::MpiPull& message);

// Errors: INVALID_ARGUMENT saying what is wrong with which field.
absl::StatusOr<PullRequest> DecodePull(const proto::MpiPull& message);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_WIRE_H_
