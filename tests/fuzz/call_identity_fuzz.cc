// Fuzzes the metadata that identifies a call, and the status that ends it.

#include <algorithm>
#include <cctype>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/wire/status_codec.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr uint64_t kIncarnation = 1001;
constexpr size_t kMaxMessageBytes = 1024;

// Names of the metadata fields, with values that a server accepts.
const std::vector<std::pair<std::string, std::string>>& Fields() {
  static const auto* const fields =
      new std::vector<std::pair<std::string, std::string>>{
          {"tutti-token-bin", "secret"},
          {"tutti-protocol", absl::StrCat(kProtocolVersion)},
          {"tutti-job-bin", "job"},
          {"tutti-caller", "2"},
          {"tutti-caller-incarnation", "77"},
          {"tutti-callee", "0"},
          {"tutti-callee-incarnation", absl::StrCat(kIncarnation)},
          {"tutti-incarnation", "77"},
          {"tutti-host", "host"},
          {"tutti-challenge-bin", "0123456789abcdef"},
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
  Promise(metadata.find("tutti-token-bin")->second == "secret",
          "a call that is let in has the token");
}

void CheckMemory(const Metadata& metadata) {
  const auto incarnation = FindIncarnation(metadata);
  Promise(!incarnation || *incarnation != 0, "no incarnation is 0");
  const auto recv = FindMemoryRequest(metadata);
  Promise(!recv || (!recv->host.empty() && !recv->challenge.empty()),
          "who asks for memory says where and with what proof");
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
  if (input.Choice(8) == 0) {
    CheckStatus(input);
    return 0;
  }
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
  CheckMemory(metadata);
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
  return {good.bytes(), status(10, "the group has ended"),
          status(14, "last error: UNKNOWN: Connection refused"),
          status(1, "CANCELLED"), status(3, std::string(5000, '\xc3'))};
}

}  // namespace tutti
