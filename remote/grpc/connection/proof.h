#ifndef TUTTI_REMOTE_GRPC_CONNECTION_PROOF_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Version of the protocol. Tasks talk to each other only if it is equal.
inline constexpr int kProtocolVersion = 3;

// Returns HMAC-SHA256 of `text` under the key `token`: 32 bytes.
std::string MacOf(absl::string_view token, absl::string_view text);

// Compares in constant time for texts of one size: the time does not show where
// they differ.
bool SameSecret(absl::string_view a, absl::string_view b);

// Side of the exchange by which the two tasks of a new connection prove to each
// other that they have the job's token, before anything else is sent:
//
//   caller                                              callee
//     magic, version, caller, callee, nonce    ---->
//                                              <----      magic, version, nonce
//     MAC                                      ---->      checks it
//     checks it                                <----      code, callee, MAC
//
// MACs are HMAC-SHA256 with the token as key, over the role, both tasks and
// both nonces; that of the callee also over its code. The token itself is never
// sent. Each message has a fixed size; at most 84 bytes of a caller are read.
//
// Holds no socket. Not thread-safe.
class Proof {
 public:
  // Inputs of a side; they outlive it.
  struct Party {
    const ClusterSpec* cluster;
    const std::string* token;
  };

  static Proof OfCaller(const Party& party, int callee, Random& random);
  static Proof OfCallee(const Party& party, Random& random);

  // Returns the bytes to send now, and forgets them. There may be some after an
  // error too: the other side then learns why.
  std::string TakeOutput() { return std::exchange(output_, {}); }

  // Returns the number of bytes to receive before the next step; 0 after the
  // last.
  size_t num_missing() const { return wanted_ - received_.size(); }
  bool is_done() const { return wanted_ == 0; }

  // Takes received bytes, at most num_missing(). Errors:
  // - UNAVAILABLE if the other side speaks another protocol;
  // - FAILED_PRECONDITION for another version, for TLS, or if the callee is
  //   another task;
  // - UNAUTHENTICATED if a side does not have the token.
  absl::Status Take(absl::string_view bytes);

 private:
  enum class Step { kHello, kChallenge, kMac, kVerdict };

  Proof(const Party& party, Random& random, Step first);

  absl::Status TakeHello();
  absl::Status TakeChallenge();
  absl::Status TakeMac();
  absl::Status TakeVerdict();

  void Expect(Step step);
  absl::Status CheckMagic();
  std::string Mac(absl::string_view role, absl::string_view more = "") const;
  std::string Label(int task) const { return party_.cluster->Label(task); }

  Party party_;
  Step step_;
  size_t wanted_ = 0;
  std::string received_;
  std::string output_;
  std::string nonce_;  // Nonce of this side.
  int32_t caller_ = 0;
  int32_t callee_ = 0;
  std::string caller_nonce_;
  std::string callee_nonce_;
};

// Exchanges over a non-blocking socket what can be exchanged now. Returns
// whether the proof is done. Errors: those of Proof; UNAVAILABLE if the
// connection ends, in the words of kClosed.
absl::StatusOr<bool> Continue(Proof& proof, int fd);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_PROOF_H_
