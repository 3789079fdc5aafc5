#include "remote/grpc/connection/proof.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "openssl/evp.h"
#include "openssl/hmac.h"
#include "remote/grpc/connection/openssl_at_exit.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

// Ends a line for whoever reads lines, so that they answer and are recognised.
constexpr absl::string_view kMagic = "tutti!\r\n";
constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;
constexpr size_t kNumberBytes = 4;
constexpr size_t kHelloBytes = kMagic.size() + 3 * kNumberBytes + kNonceBytes;
constexpr size_t kChallengeBytes = kMagic.size() + kNumberBytes + kNonceBytes;
constexpr size_t kVerdictBytes = 2 * kNumberBytes + kMacBytes;

// Codes of a verdict. kNoToken comes without a MAC: nobody is there to check
// it.
enum Verdict : int32_t { kWelcome = 0, kNoToken = 1, kOtherTask = 2 };

// Little-endian.
std::string Number(int32_t value) {
  std::string bytes(kNumberBytes, '\0');
  for (size_t i = 0; i < kNumberBytes; ++i) {
    bytes[i] = static_cast<char>(static_cast<uint32_t>(value) >> (8 * i));
  }
  return bytes;
}

int32_t NumberAt(absl::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[offset + i]))
             << (8 * i);
  }
  return static_cast<int32_t>(value);
}

std::string DrawNonce(Random& random) {
  std::string nonce(kNonceBytes, '\0');
  for (size_t i = 0; i < kNonceBytes; i += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(nonce.data() + i, &word, sizeof(word));
  }
  return nonce;
}

// Returns whether bytes are the beginning of a record of TLS: an alert or a
// handshake.
bool IsTls(absl::string_view bytes) {
  return bytes.size() >= 2 && (bytes[0] == 0x15 || bytes[0] == 0x16) &&
         bytes[1] == 0x03;
}

}  // namespace

std::string MacOf(absl::string_view token, absl::string_view text) {
  KeepOpenSslAtExit();
  std::string mac(kMacBytes, '\0');
  unsigned int size = 0;
  // Returns null only without memory; an empty MAC then equals no other.
  const void* const made =
      HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  return made != nullptr && size == kMacBytes ? mac : "";
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size() || a.empty()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

Proof::Proof(const Party& party, Random& random, Step first)
    : party_(party), step_(first), nonce_(DrawNonce(random)) {
  Expect(first);
}

Proof Proof::OfCaller(const Party& party, int callee, Random& random) {
  Proof proof(party, random, Step::kChallenge);
  proof.caller_ = party.cluster->this_task;
  proof.callee_ = callee;
  proof.caller_nonce_ = proof.nonce_;
  proof.output_ =
      absl::StrCat(kMagic, Number(kProtocolVersion), Number(proof.caller_),
                   Number(callee), proof.nonce_);
  return proof;
}

Proof Proof::OfCallee(const Party& party, Random& random) {
  Proof proof(party, random, Step::kHello);
  proof.callee_nonce_ = proof.nonce_;
  return proof;
}

void Proof::Expect(Step step) {
  constexpr size_t kSizes[] = {kHelloBytes, kChallengeBytes, kMacBytes,
                               kVerdictBytes};
  step_ = step;
  wanted_ = kSizes[static_cast<size_t>(step)];
  received_.clear();
}

absl::Status Proof::Take(absl::string_view bytes) {
  received_.append(bytes.data(), bytes.size());
  if (step_ == Step::kHello || step_ == Step::kChallenge) {
    const absl::Status magic = CheckMagic();
    if (!magic.ok()) return magic;
  }
  if (num_missing() > 0) return absl::OkStatus();
  switch (step_) {
    case Step::kHello:
      return TakeHello();
    case Step::kChallenge:
      return TakeChallenge();
    case Step::kMac:
      return TakeMac();
    case Step::kVerdict:
      break;
  }
  return TakeVerdict();
}

absl::Status Proof::CheckMagic() {
  const absl::string_view begin =
      absl::string_view(received_).substr(0, kMagic.size());
  if (absl::StartsWith(kMagic, begin)) return absl::OkStatus();
  if (step_ == Step::kHello) {
    output_ =
        std::string(kMagic);  // Tells a caller with TLS that this is none.
    return absl::UnavailableError("the caller is no task");
  }
  if (IsTls(begin)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Label(callee_), ": it speaks TLS, this task does not"));
  }
  return absl::UnavailableError(absl::StrCat(Label(callee_), ": ", kNoTask));
}

absl::Status Proof::TakeHello() {
  const std::string hello = std::move(received_);
  const size_t numbers = kMagic.size();
  const int32_t version = NumberAt(hello, numbers);
  caller_ = NumberAt(hello, numbers + kNumberBytes);
  callee_ = NumberAt(hello, numbers + 2 * kNumberBytes);
  caller_nonce_ = hello.substr(kHelloBytes - kNonceBytes);
  output_ = absl::StrCat(kMagic, Number(kProtocolVersion), nonce_);
  if (version != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the caller speaks version ", version,
                     " of the protocol, not ", kProtocolVersion));
  }
  Expect(Step::kMac);
  return absl::OkStatus();
}

absl::Status Proof::TakeChallenge() {
  const std::string challenge = std::move(received_);
  const int32_t version = NumberAt(challenge, kMagic.size());
  if (version != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(Label(caller_), " speaks version \"", kProtocolVersion,
                     "\" of the protocol, ", Label(callee_),
                     " speaks version \"", version, "\""));
  }
  callee_nonce_ = challenge.substr(kChallengeBytes - kNonceBytes);
  output_ = Mac("caller");
  Expect(Step::kVerdict);
  return absl::OkStatus();
}

absl::Status Proof::TakeMac() {
  if (!SameSecret(received_, Mac("caller"))) {
    output_ =
        absl::StrCat(Number(kNoToken), Number(0), std::string(kMacBytes, '\0'));
    return absl::UnauthenticatedError(absl::StrCat(
        "who calls as ", Label(caller_), " does not have this job's token"));
  }
  const int this_task = party_.cluster->this_task;
  const bool is_meant = callee_ == this_task;
  const std::string numbers =
      absl::StrCat(Number(is_meant ? kWelcome : kOtherTask), Number(this_task));
  output_ = absl::StrCat(numbers, Mac("callee", numbers));
  if (!is_meant) {
    return absl::FailedPreconditionError(
        absl::StrCat(Label(caller_), " wanted task ", callee_, ", this is ",
                     Label(this_task)));
  }
  wanted_ = 0;
  received_.clear();
  return absl::OkStatus();
}

absl::Status Proof::TakeVerdict() {
  const absl::string_view numbers =
      absl::string_view(received_).substr(0, 2 * kNumberBytes);
  const int32_t code = NumberAt(numbers, 0);
  if (code == kNoToken) {
    return absl::UnauthenticatedError(absl::StrCat(
        Label(callee_), " refuses the connection: ", Label(caller_),
        " does not have this job's token"));
  }
  if (!SameSecret(received_.substr(numbers.size()), Mac("callee", numbers))) {
    return absl::UnauthenticatedError(absl::StrCat(
        "what answers as ", Label(callee_), " does not have this job's token"));
  }
  if (code != kWelcome) {
    return absl::FailedPreconditionError(
        absl::StrCat(Label(caller_), " wanted ", Label(callee_),
                     ", there is task ", NumberAt(numbers, kNumberBytes)));
  }
  wanted_ = 0;
  received_.clear();
  return absl::OkStatus();
}

std::string Proof::Mac(absl::string_view role, absl::string_view more) const {
  return MacOf(*party_.token,
               absl::StrCat("tutti ", role, Number(caller_), Number(callee_),
                            caller_nonce_, callee_nonce_, more));
}

namespace {

// Nothing fills the buffer of a new connection: what does not fit is an error.
absl::Status Send(int fd, absl::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(kClosed);
}

}  // namespace

absl::StatusOr<bool> Continue(Proof& proof, int fd) {
  std::array<char, kHelloBytes> buffer;
  while (true) {
    const absl::Status sent = Send(fd, proof.TakeOutput());
    if (!sent.ok()) return sent;
    if (proof.is_done()) return true;
    const ssize_t received =
        recv(fd, buffer.data(), std::min(buffer.size(), proof.num_missing()),
             MSG_DONTWAIT);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (received <= 0) return absl::UnavailableError(kClosed);
    const absl::Status taken = proof.Take(
        absl::string_view(buffer.data(), static_cast<size_t>(received)));
    if (taken.ok()) continue;
    (void)Send(fd, proof.TakeOutput());
    return taken;
  }
}

}  // namespace tutti
