// The process of bench/in_process.py that runs Tutti, and the floors that
// memory sets, in the same buffers.
//
// usage: in_process_worker
//
// Speaks the language of serve_calls.h, with "CASE DEVICES DTYPE" for the name
// of the collective. Cases:
//   out_of_place, in_place   an all-reduce, all calls from one thread
//   prepared, shared_output  prepared, members with an output each, or one
//   two_threads              out of place, half of the calls from each of two
//                            threads; for sizes that are reduced inline
//   handed_over              no times, but the number of pieces of work that
//   the
//                            queue gets in all calls out of place
//   many, many_by_device     kMany all-reduces of the size given, submitted
//                            together: all devices' calls of the first come
//                            first, or all calls of the first device
//   many_together            the same as segments of one all-reduce
//   copy, in_place_floor, shared_floor, cache_copy
//                            the floors of memory_floors.h, divided among as
//                            many threads as processors; one time, the mean

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/member_calls.h"
#include "bench/memory_floors.h"
#include "framework/base/status_macros.h"
#include "tools/base/version.h"
#include "tools/measure/parallel_for.h"
#include "tools/measure/perf_buffers.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using Times = std::vector<int64_t>;  // Nanoseconds.

constexpr int kMany = 1000;

const std::map<std::string, FloorFn>& Floors() {
  static const auto& floors =
      *new std::map<std::string, FloorFn>{{"copy", CopyPastCaches},
                                          {"in_place_floor", Overwrite},
                                          {"shared_floor", ReadAllWriteOne},
                                          {"cache_copy", CopyToAndFro}};
  return floors;
}

struct Job {
  std::string name;
  Workload workload;
  int64_t num_bytes = 0;
  int num_warmup = 0;
  int num_calls = 0;

  bool in_place() const { return name == "in_place"; }
  bool is_many() const { return name.rfind("many", 0) == 0; }
};

absl::StatusOr<Job> ParseJob(const std::string& line) {
  Job job;
  std::string dtype;
  std::istringstream words(line);
  words >> job.name >> job.workload.group_size >> dtype >> job.num_bytes >>
      job.num_warmup >> job.num_calls;
  ASSIGN_OR_RETURN(const auto parsed, ParseDType(dtype));
  job.workload.dtype = parsed;
  ASSIGN_OR_RETURN(const auto spec,
                   ParseCollectiveSpec({.collective = "all_reduce"}));
  job.workload.spec = spec;
  job.workload.count = job.num_bytes / static_cast<int64_t>(SizeOf(parsed)) *
                       (job.is_many() ? kMany : 1);
  if (words.fail() || job.num_calls < 1 || job.workload.count < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted CASE DEVICES DTYPE BYTES WARMUP CALLS, got \"", line, "\""));
  }
  return job;
}

// Buffers that calls read and write repeatedly.
struct Buffers {
  std::unique_ptr<PerfBuffers> owner;
  std::vector<RankBuffers>* ranks = nullptr;
};

class Server {
 public:
  absl::StatusOr<Times> Run(const Job& job) {
    ASSIGN_OR_RETURN(const auto calls, CallsOf(job.workload.group_size));
    ASSIGN_OR_RETURN(const auto ranks, BuffersFor(job, calls));
    const auto floor = Floors().find(job.name);
    if (floor != Floors().end()) {
      return TimeFloor(job, floor->second, *ranks);
    }
    if (job.is_many()) return TimeMany(job, calls, *ranks);
    if (job.name == "two_threads") return TimeTwoThreads(job, calls, ranks);
    if (job.name == "handed_over") return CountWork(job, calls, ranks);
    if (job.name == "prepared" || job.name == "shared_output") {
      return TimePrepared(job, calls, *ranks);
    }
    if (job.name == "out_of_place" || job.in_place()) {
      return TimeOneThread(job, calls, ranks);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("there is no case \"", job.name, "\""));
  }

 private:
  // Returns the same buffers while only the case changes. New buffers are first
  // reduced once and checked. Errors: also DATA_LOSS.
  absl::StatusOr<std::vector<RankBuffers>*> BuffersFor(const Job& job,
                                                       MemberCalls* calls);
  absl::StatusOr<MemberCalls*> CallsOf(int num_devices);

  static absl::Status RunOnce(const Job& job, MemberCalls* calls,
                              std::vector<RankBuffers>* ranks);
  absl::StatusOr<Times> TimeFloor(const Job& job, FloorFn floor,
                                  const std::vector<RankBuffers>& ranks);
  static absl::StatusOr<Times> TimeOneThread(const Job& job, MemberCalls* calls,
                                             std::vector<RankBuffers>* ranks);
  static absl::StatusOr<Times> TimePrepared(
      const Job& job, MemberCalls* calls,
      const std::vector<RankBuffers>& ranks);
  absl::StatusOr<Times> TimeTwoThreads(const Job& job, MemberCalls* calls,
                                       std::vector<RankBuffers>* ranks);
  static absl::StatusOr<Times> CountWork(const Job& job, MemberCalls* calls,
                                         std::vector<RankBuffers>* ranks);
  static absl::StatusOr<Times> TimeMany(const Job& job, MemberCalls* calls,
                                        const std::vector<RankBuffers>& ranks);
  static absl::StatusOr<Times> TimeManyTogether(
      const Job& job, MemberCalls* calls,
      const std::vector<std::vector<RankBuffers>>& buffers);

  const DefaultEnvironment environment_;
  const DefaultEnvironment callers_{2};  // Its threads make calls.
  std::map<int, std::unique_ptr<MemberCalls>> calls_;  // By number of devices.
  std::string buffers_are_of_;
  std::map<std::string, Buffers> buffers_;  // By what is done first.
};

absl::StatusOr<std::vector<RankBuffers>*> Server::BuffersFor(
    const Job& job, MemberCalls* calls) {
  const std::string wanted =
      absl::StrCat(job.workload.group_size, " ", Name(job.workload.dtype), " ",
                   job.workload.count);
  if (buffers_are_of_ != wanted) buffers_.clear();
  buffers_are_of_ = wanted;
  Buffers& buffers =
      buffers_[job.is_many() || job.in_place() ? job.name : "out_of_place"];
  if (buffers.ranks != nullptr) return buffers.ranks;
  ASSIGN_OR_RETURN(
      auto made,
      PerfBuffers::Create(
          job.workload, {0, job.workload.group_size},
          {.in_place = job.in_place(), .hot = true, .check = true, .seed = 1},
          environment_.get().queue));
  buffers.owner = std::move(made);
  std::vector<RankBuffers>* const ranks = &buffers.owner->Next();
  Job once = job;
  once.num_warmup = 0;
  once.num_calls = 1;
  RETURN_IF_ERROR(job.is_many() ? TimeMany(once, calls, *ranks).status()
                                : RunOnce(once, calls, ranks));
  const int64_t wrong = buffers.owner->CountWrong();
  if (wrong > 0) {
    return absl::DataLossError(absl::StrCat(wrong, " elements are wrong"));
  }
  buffers.ranks = ranks;
  return ranks;
}

absl::StatusOr<MemberCalls*> Server::CallsOf(int num_devices) {
  std::unique_ptr<MemberCalls>& calls = calls_[num_devices];
  if (calls == nullptr) {
    ASSIGN_OR_RETURN(calls,
                     MemberCalls::Create(environment_.get(), num_devices));
  }
  return calls.get();
}

absl::Status Server::RunOnce(const Job& job, MemberCalls* calls,
                             std::vector<RankBuffers>* ranks) {
  Round round(job.workload.group_size);
  calls->Make(calls->RequestOf(job.workload, 0), ranks,
              {0, job.workload.group_size}, &round);
  return round.Wait();
}

absl::StatusOr<Times> Server::TimeFloor(const Job& job, FloorFn floor,
                                        const std::vector<RankBuffers>& ranks) {
  FloorBuffers buffers;
  for (const RankBuffers& rank : ranks) {
    buffers.inputs.push_back(
        reinterpret_cast<const uint8_t*>(rank.input.data()));
    buffers.outputs.push_back(
        reinterpret_cast<uint8_t*>(const_cast<std::byte*>(rank.output.data())));
  }
  const int num_workers =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto size = static_cast<size_t>(job.num_bytes);
  const auto cut = [&](int worker) {
    return size * static_cast<size_t>(worker) /
           static_cast<size_t>(num_workers);
  };
  const auto begin = steady_clock::now();
  ParallelFor(environment_.get().queue, num_workers, [&](int worker) {
    const FloorPart part = {.begin = cut(worker), .end = cut(worker + 1)};
    for (int i = 0; i < job.num_calls; ++i) floor(buffers, part);
  });
  const nanoseconds elapsed = steady_clock::now() - begin;
  return Times{elapsed.count() / job.num_calls};
}

absl::StatusOr<Times> Server::TimeOneThread(const Job& job, MemberCalls* calls,
                                            std::vector<RankBuffers>* ranks) {
  const auto request = calls->RequestOf(job.workload, 0);
  Times times;
  for (int i = 0; i < job.num_warmup + job.num_calls; ++i) {
    Round round(job.workload.group_size);
    const auto begin = steady_clock::now();
    calls->Make(request, ranks, {0, job.workload.group_size}, &round);
    RETURN_IF_ERROR(round.Wait());
    const nanoseconds time = round.end() - begin;
    if (i >= job.num_warmup) times.push_back(time.count());
  }
  return times;
}

absl::StatusOr<Times> Server::TimePrepared(
    const Job& job, MemberCalls* calls, const std::vector<RankBuffers>& ranks) {
  ASSIGN_OR_RETURN(
      const auto prepared,
      calls->Prepare(calls->RequestOf(job.workload, 0), ranks,
                     /*allow_shared_output=*/job.name == "shared_output"));
  Times times;
  for (int i = 0; i < job.num_warmup + job.num_calls; ++i) {
    Round round(job.workload.group_size);
    const auto begin = steady_clock::now();
    for (const auto& member : prepared) {
      member->Start(
          [&round](absl::Status status) { round.End(std::move(status)); });
    }
    RETURN_IF_ERROR(round.Wait());
    const nanoseconds time = round.end() - begin;
    if (i >= job.num_warmup) times.push_back(time.count());
  }
  return times;
}

absl::StatusOr<Times> Server::TimeTwoThreads(const Job& job, MemberCalls* calls,
                                             std::vector<RankBuffers>* ranks) {
  const auto request = calls->RequestOf(job.workload, 0);
  const int num_devices = job.workload.group_size;
  const int num_rounds = job.num_warmup + job.num_calls;
  std::deque<Round> rounds;
  for (int i = 0; i < num_rounds; ++i) rounds.emplace_back(num_devices);
  std::vector<steady_clock::time_point> begins(rounds.size());
  std::atomic<int> begun = 0;
  ParallelFor(callers_.get().queue, 2, [&](int thread) {
    for (int i = 0; i < num_rounds; ++i) {
      Round* const round = &rounds[static_cast<size_t>(i)];
      if (thread == 1) {
        while (begun.load(std::memory_order_acquire) <= i) {
        }
        calls->Make(request, ranks, {num_devices / 2, num_devices}, round);
        continue;
      }
      begins[static_cast<size_t>(i)] = steady_clock::now();
      begun.store(i + 1, std::memory_order_release);
      calls->Make(request, ranks, {0, num_devices / 2}, round);
      while (!round->ended()) {
      }
    }
  });
  Times times;
  for (size_t i = 0; i < rounds.size(); ++i) {
    RETURN_IF_ERROR(rounds[i].Wait());
    const nanoseconds time = rounds[i].end() - begins[i];
    if (static_cast<int>(i) >= job.num_warmup) times.push_back(time.count());
  }
  return times;
}

absl::StatusOr<Times> Server::CountWork(const Job& job, MemberCalls* calls,
                                        std::vector<RankBuffers>* ranks) {
  const int64_t before = calls->num_handed_over();
  for (int i = 0; i < job.num_calls; ++i) {
    RETURN_IF_ERROR(RunOnce(job, calls, ranks));
  }
  return Times{calls->num_handed_over() - before};
}

absl::StatusOr<Times> Server::TimeMany(const Job& job, MemberCalls* calls,
                                       const std::vector<RankBuffers>& ranks) {
  Workload one = job.workload;
  one.count /= kMany;
  std::vector<std::shared_ptr<const CollectiveRequest>> requests;
  std::vector<std::vector<RankBuffers>> buffers(kMany);
  for (int i = 0; i < kMany; ++i) {
    requests.push_back(calls->RequestOf(one, i));
    for (const RankBuffers& rank : ranks) {
      const int64_t begin = i * one.count;
      buffers[static_cast<size_t>(i)].push_back(
          {.input = *rank.input.Slice(begin, begin + one.count),
           .output = *rank.output.Slice(begin, begin + one.count)});
    }
  }
  if (job.name == "many_together") {
    return TimeManyTogether(job, calls, buffers);
  }
  const int num_devices = one.group_size;
  const bool by_device = job.name == "many_by_device";
  const int step = by_device ? 1 : num_devices;
  Times times;
  for (int n = 0; n < job.num_warmup + job.num_calls; ++n) {
    Round round(kMany * num_devices);
    const auto begin = steady_clock::now();
    for (int device = 0; device < num_devices; device += step) {
      for (size_t i = 0; i < kMany; ++i) {
        calls->Make(requests[i], &buffers[i], {device, device + step}, &round);
      }
    }
    RETURN_IF_ERROR(round.Wait());
    const nanoseconds time = round.end() - begin;
    if (n >= job.num_warmup) times.push_back(time.count());
  }
  return times;
}

absl::StatusOr<Times> Server::TimeManyTogether(
    const Job& job, MemberCalls* calls,
    const std::vector<std::vector<RankBuffers>>& buffers) {
  const auto size = static_cast<size_t>(job.workload.group_size);
  std::vector<std::shared_ptr<const SegmentList>> lists;
  for (size_t rank = 0; rank < size; ++rank) {
    std::vector<SegmentList::Segment> segments;
    for (const std::vector<RankBuffers>& one : buffers) {
      segments.push_back({one[rank].input, one[rank].output});
    }
    ASSIGN_OR_RETURN(auto list, SegmentList::Create(std::move(segments)));
    lists.push_back(std::move(list));
  }
  const auto request = calls->RequestOf(job.workload, 0);
  Times times;
  for (int n = 0; n < job.num_warmup + job.num_calls; ++n) {
    Round round(job.workload.group_size);
    const auto begin = steady_clock::now();
    calls->MakeTogether(request, lists, &round);
    RETURN_IF_ERROR(round.Wait());
    const nanoseconds time = round.end() - begin;
    if (n >= job.num_warmup) times.push_back(time.count());
  }
  return times;
}

void Serve() {
  std::cout << "READY Tutti " << kVersion << std::endl;
  Server server;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto job = ParseJob(line);
    const auto times = job.ok() ? server.Run(*job) : job.status();
    if (times.ok()) {
      std::cout << "OK " << absl::StrJoin(*times, " ") << std::endl;
    } else {
      std::cout << "ERROR " << times.status() << std::endl;
    }
  }
}

}  // namespace
}  // namespace tutti

int main() { tutti::Serve(); }
