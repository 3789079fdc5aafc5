// Fuzzes the proof of a connection, the metadata that identifies a call, and
// the status that ends it.

#include <algorithm>
#include <cctype>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/proof.h"
#include "remote/grpc/wire/status_codec.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

constexpr uint64_t kIncarnation = 1001;
constexpr size_t kMaxMessageBytes = 1024;

// Names of the metadata fields, with values that a server accepts.
const std::vector<std::pair<std::string, std::string>>& Fields() {
  static const auto* const fields =
      new std::vector<std::pair<std::string, std::string>>{
          {"tutti-mac-bin", MacOf("secret", "tutti call 2 0")},
          {"tutti-protocol", absl::StrCat(kProtocolVersion)},
          {"tutti-job-bin", "job"},
          {"tutti-caller", "2"},
          {"tutti-caller-incarnation", "77"},
          {"tutti-callee", "0"},
          {"tutti-callee-incarnation", absl::StrCat(kIncarnation)},
          {"tutti-incarnation", "77"},
      };
  return *fields;
}

size_t NumWithName(const Metadata& metadata, const std::string& name) {
  return metadata.count(grpc::string_ref(name.data(), name.size()));
}

void CheckCall(const Metadata& metadata) {
  static const ClusterSpec cluster{.addresses = {"a:1", "b:1", "c:1"}};
  static const JobIdentity job{.job_id = "job", .token = "secret"};
  const auto caller = CheckIdentity(
      {.cluster = &cluster, .job = &job, .incarnation = kIncarnation},
      metadata);
  if (!caller.ok()) {
    const absl::Status& status = caller.status();
    Promise(absl::IsUnauthenticated(status) ||
                absl::IsFailedPrecondition(status) ||
                absl::IsInvalidArgument(status),
            "a call is refused with one of the codes that are promised");
    Promise(status.message().size() <= kMaxMessageBytes,
            "a refusal does not repeat all that it was sent");
    return;
  }
  Promise(caller->task >= 0 && caller->task < 3, "the caller is a task");
  for (const auto& [name, value] : Fields()) {
    if (name == "tutti-incarnation") break;
    Promise(NumWithName(metadata, name) == 1,
            "a call that is let in has each field once");
  }
  Promise(metadata.find("tutti-mac-bin")->second ==
              MacOf("secret", absl::StrCat("tutti call ", caller->task, " 0")),
          "a call that is let in has the token");
}

void CheckIncarnation(const Metadata& metadata) {
  const auto incarnation = FindIncarnation(metadata);
  Promise(!incarnation || *incarnation != 0, "no incarnation is 0");
}

// Gives both sides of a proof bytes from one who does not know the token.
void CheckProof(FuzzInput& input) {
  static const ClusterSpec cluster{.addresses = {"a:1", "b:1", "c:1"}};
  static const std::string token = "secret";
  static DefaultEnvironment environment(1);
  Random& random = *environment.get().random;
  Proof proof = input.Choice(2) == 0
                    ? Proof::OfCaller({&cluster, &token}, 1, random)
                    : Proof::OfCallee({&cluster, &token}, random);
  const std::string bytes = input.Rest();
  absl::string_view left = bytes;
  while (!left.empty()) {
    const size_t size = std::min({proof.num_missing(), left.size(), size_t{7}});
    Promise(size > 0 && !proof.is_done(), "no stranger proves to be a task");
    if (!proof.Take(left.substr(0, size)).ok()) return;
    left.remove_prefix(size);
  }
}

void CheckStatus(FuzzInput& input) {
  const auto code = static_cast<grpc::StatusCode>(input.Choice(17));
  const std::string text = input.Rest();
  const grpc::Status from_peer(code, text);
  const absl::Status status = FromGrpc(from_peer);
  Promise(status.ok() == (code == grpc::StatusCode::OK),
          "a status from a peer is OK only if it says so");
  const grpc::Status back = ToGrpc(status);
  Promise(back.error_code() == code, "a code survives the wire");
  Promise(back.error_message().size() <= kMaxStatusMessageBytes,
          "the message of a status is cut");
  if (code == grpc::StatusCode::OK) return;
  Promise(!ConnectionError("task 1 (a:1)", from_peer).ok(),
          "a call that failed is an error");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const int kind = static_cast<int>(input.Choice(8));
  if (kind == 0) CheckStatus(input);
  if (kind == 2) CheckProof(input);
  if (kind == 0 || kind == 2) return 0;
  // Metadata refers to texts that live elsewhere.
  std::list<std::string> texts;
  const auto keep = [&texts](std::string text) {
    const std::string& kept = texts.emplace_back(std::move(text));
    return grpc::string_ref(kept.data(), kept.size());
  };
  Metadata metadata;
  while (!input.empty()) {
    const size_t which = input.Choice(static_cast<int>(Fields().size()) + 1);
    const bool is_known = which < Fields().size();
    const grpc::string_ref name =
        keep(is_known ? Fields()[which].first : input.Text());
    metadata.emplace(name, keep(input.Text()));
  }
  CheckCall(metadata);
  CheckIncarnation(metadata);
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  FuzzOutput good;
  good.Choice(1);
  for (size_t i = 0; i < Fields().size(); ++i) {
    good.Choice(static_cast<int>(i)).Text(Fields()[i].second);
  }
  const auto status = [](int code, const std::string& text) {
    return FuzzOutput().Choice(0).Choice(code).Rest(text).bytes();
  };
  const auto proof = [](int side, const std::string& bytes) {
    return FuzzOutput().Choice(2).Choice(side).Rest(bytes).bytes();
  };
  return {good.bytes(),
          status(10, "the group has ended"),
          status(14, "last error: UNKNOWN: Connection refused"),
          status(1, "CANCELLED"),
          status(3, std::string(5000, '\xc3')),
          proof(0, absl::StrCat("tutti!\r\n\3", std::string(100, '\0'))),
          proof(1, absl::StrCat("tutti!\r\n\3", std::string(100, '\0')))};
}

}  // namespace tutti
