#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_WIRE_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_WIRE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "proto/mpi.pb.h"
#include "tutti/peer_access.h"

namespace tutti {

// How bytes go (proto/mpi.proto has the messages):
//
//   receiver                                      sender
//     posts receives for the first chunks
//     pull {key, num_bytes, payload_tag}  --->    lends the bytes, now or later
//                                         <---    chunks with that tag
//
//                                         <---    pulled {num_sent}
//
// Few bytes come in the message that ends the pull instead. Every pull ends
// with one, also one that the receiver has cancelled, as soon as no more will
// be sent; it says how many bytes were, with that tag, and why not all. When
// the receiver has got these, the tag can be used again.
//
// Where the receiver can read the sender's memory (remote/peer_memory.h), more
// than a message carries does not go through MPI:
//
//     pull {key, num_bytes, may_read_memory}  --->  lends the bytes
//     reads the bytes, then the lease         <---  place {bytes, lease}
//     read                                    --->  takes the bytes back
//
// That ends the pull, unless the sender has taken them back before: then it has
// sent a "pulled" with the reason. A receiver that cannot read them after all
// posts receives, and asks for the rest by "send_rest", with a tag.
//
// A task that shuts down cancels its pulls, ends those of others, and waits
// until all have ended, or too long: then it says of those that are left how
// many bytes come. Last it says goodbye. What comes afterwards it refuses.

// Longer messages are not read: the next field of a peer's message that is not
// known could be anything.
inline constexpr size_t kMaxMessageBytes = size_t{8} << 20;

// The most that a message carries.
inline constexpr size_t kMaxInlineBytes = size_t{8} << 10;

// Of the chunks that follow one another; the last one may be shorter. Whole
// elements of all types. Both sides know it: it is part of the protocol, whose
// version MpiRuntime compares.
inline constexpr size_t kChunkBytes = size_t{256} << 10;

// Chunks of one pull that are sent at a time, and that are received from
// another host. Of this host one is, as Open MPI copies it while it is called.
inline constexpr size_t kChunksAtATime = 8;

// Of what was pulled.
struct PullRequest {
  BufKey key;
  Ask ask;                       // Without a borrower.
  int payload_tag = 0;           // 0: inline, or to be read.
  bool may_read_memory = false;  // Not if inline.
};

void EncodePull(const PullRequest& request, proto::MpiPull& message);

// Errors: INVALID_ARGUMENT saying what is wrong with which field.
absl::StatusOr<PullRequest> DecodePull(const proto::MpiPull& message);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_WIRE_H_
