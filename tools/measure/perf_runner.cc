#include "tools/measure/perf_runner.h"

#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "framework/base/status_macros.h"
#include "tools/cluster/party_devices.h"
#include "tutti/device.h"

namespace tutti {

namespace {

// Returns `part` of `whole` in the copy of `whole`.
absl::StatusOr<Tensor> PartOf(const Tensor& copy, const Tensor& whole,
                              const Tensor& part) {
  if (part.size_bytes() == whole.size_bytes()) return copy;
  const auto begin = static_cast<int64_t>(part.data() - whole.data()) /
                     static_cast<int64_t>(SizeOf(part.dtype()));
  return copy.Slice(begin, begin + part.num_elements());
}

// Copies the buffers to the device; in place, one stays a part of the other.
absl::StatusOr<RankBuffers> OnDevice(const RankBuffers& host, Device& device,
                                     Clock& clock) {
  if (device.has_host_memory()) return host;
  const bool input_is_whole =
      host.input.size_bytes() > host.output.size_bytes();
  const Tensor& whole = input_is_whole ? host.input : host.output;
  const Tensor& part = input_is_whole ? host.output : host.input;
  ASSIGN_OR_RETURN(const auto whole_there, ToDevice(whole, device, clock));
  ASSIGN_OR_RETURN(const auto part_there,
                   OverlapOf(whole, part) == Overlap::kNone
                       ? ToDevice(part, device, clock)
                       : PartOf(whole_there, whole, part));
  return input_is_whole ? RankBuffers{whole_there, part_there}
                        : RankBuffers{part_there, whole_there};
}

}  // namespace

bool IsRefusal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kNotFound ||  // A part is missing.
         status.code() == absl::StatusCode::kFailedPrecondition ||
         status.code() == absl::StatusCode::kUnimplemented;
}

PerfRunner::Requests PerfRunner::MakeRequests(const Workload& workload,
                                              const std::string& algorithm) {
  ++last_instance_;
  Requests requests;
  for (int i = 0; i < party_->num_local(); ++i) {
    CollectiveRequest request = RequestOf(workload, party_->first_rank() + i);
    request.instance_key = last_instance_;
    request.device_type = party_->devices()[i]->attributes().name.type;
    request.impl_details.implementation = algorithm;
    request.impl_details.determinism = options_.determinism;
    request.impl_details.rank_list = options_.rank_list;
    requests.push_back(
        std::make_shared<const CollectiveRequest>(std::move(request)));
  }
  return requests;
}

absl::Status PerfRunner::Try(PerfBuffers* buffers,
                             const std::string& algorithm) {
  const Requests requests = MakeRequests(buffers->workload(), algorithm);
  const absl::Cleanup cleaned_up = [this] { CleanUpStep(); };
  return RunTogether(requests, buffers).status();
}

absl::StatusOr<Measurement> PerfRunner::Measure(PerfBuffers* buffers,
                                                const std::string& algorithm) {
  const Requests requests = MakeRequests(buffers->workload(), algorithm);
  const absl::Cleanup cleaned_up = [this] { CleanUpStep(); };
  Measurement measurement;
  int64_t wrong = 0;
  const int64_t total = int64_t{options_.warmup} + options_.iterations;
  for (int64_t i = 0; i < total; ++i) {
    ASSIGN_OR_RETURN(const auto time, RunTogether(requests, buffers));
    if (i < options_.warmup) continue;
    measurement.times.push_back(time);
    if (options_.check) wrong += buffers->CountWrong();
  }
  if (options_.check) measurement.wrong = wrong;
  measurement.algorithm = NameOfChoice(requests);
  RETURN_IF_ERROR(CombineTasks(&measurement));
  return measurement;
}

absl::StatusOr<absl::Duration> PerfRunner::RunTogether(const Requests& requests,
                                                       PerfBuffers* buffers) {
  // Before Align(), because filling buffers takes long.
  std::vector<RankBuffers>& ranks = buffers->Next();
  ASSIGN_OR_RETURN(auto on_devices, OnDevices(ranks));
  RETURN_IF_ERROR(party_->Align());
  const auto time = RunOnce(requests, &on_devices);
  if (!time.ok() || !options_.check) return time;
  RETURN_IF_ERROR(FetchOutputs(on_devices, &ranks));
  return time;
}

// Returns the buffers of the ranks on their devices.
absl::StatusOr<std::vector<RankBuffers>> PerfRunner::OnDevices(
    const std::vector<RankBuffers>& ranks) {
  std::vector<RankBuffers> on_devices;
  for (size_t i = 0; i < ranks.size(); ++i) {
    ASSIGN_OR_RETURN(auto buffers, OnDevice(ranks[i], *party_->devices()[i],
                                            *environment_.clock));
    on_devices.push_back(std::move(buffers));
  }
  return on_devices;
}

absl::Status PerfRunner::FetchOutputs(
    const std::vector<RankBuffers>& on_devices,
    std::vector<RankBuffers>* ranks) {
  for (size_t i = 0; i < ranks->size(); ++i) {
    Tensor& output = (*ranks)[i].output;
    ASSIGN_OR_RETURN(const auto fetched,
                     ToHost(on_devices[i].output, *party_->devices()[i],
                            *environment_.clock));
    if (!output.is_set() || fetched.data() == output.data()) continue;
    std::memcpy(output.mutable_data(), fetched.data(), output.size_bytes());
  }
  return absl::OkStatus();
}

// Takes the maximum of the tasks' times and the sum of their wrong elements.
absl::Status PerfRunner::CombineTasks(Measurement* measurement) {
  std::vector<int64_t> nanoseconds;
  for (const absl::Duration time : measurement->times) {
    nanoseconds.push_back(absl::ToInt64Nanoseconds(time));
  }
  RETURN_IF_ERROR(
      party_->Combine(ReductionKind::kMax, absl::MakeSpan(nanoseconds)));
  for (size_t i = 0; i < nanoseconds.size(); ++i) {
    measurement->times[i] = absl::Nanoseconds(nanoseconds[i]);
  }
  if (!measurement->wrong.has_value()) return absl::OkStatus();
  return party_->Combine(ReductionKind::kSum, {&*measurement->wrong, 1});
}

absl::StatusOr<absl::Duration> PerfRunner::RunOnce(
    const Requests& requests, std::vector<RankBuffers>* ranks) {
  const absl::Time deadline = environment_.clock->Now() + options_.deadline;
  std::vector<CollectiveArgs> calls(ranks->size());
  for (size_t i = 0; i < ranks->size(); ++i) {
    RankBuffers& buffers = (*ranks)[i];
    calls[i].request = requests[i];
    calls[i].input = buffers.input;
    if (buffers.output.is_set()) calls[i].output = &buffers.output;
    calls[i].deadline = deadline;
  }
  return RunCalls(party_.get(), environment_.clock, last_instance_,
                  std::move(calls));
}

std::string PerfRunner::NameOfChoice(const Requests& requests) {
  std::string name = "auto";
  // Requests the parameters for all ranks: the resolver keeps an instance until
  // each rank has requested it equally often. The parameters are known, so no
  // call waits.
  for (size_t i = 0; i < requests.size(); ++i) {
    party_->manager().param_resolver().CompleteInstanceAsync(
        party_->devices()[i]->attributes(), requests[i], CallNumber{},
        /*cancellation=*/nullptr, [&name](auto params) {
          if (!params.ok()) return;
          name = (*params)->instance->impl_details.implementation;
        });
  }
  return name;
}

}  // namespace tutti
