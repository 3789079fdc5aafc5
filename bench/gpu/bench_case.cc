#include "bench/gpu/bench_case.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tutti {
namespace {

absl::StatusOr<double> TakeTurn(const BenchMachine& bench, int num_calls,
                                const Contender& contender) {
  absl::Status status;
  if (contender.hold != nullptr) status = contender.hold();
  if (status.ok()) status = contender.enqueue(1);
  if (status.ok()) status = bench.timing.Start(contender.stream);
  if (status.ok()) status = contender.enqueue(num_calls);
  if (status.ok()) status = bench.timing.Stop(contender.stream);
  status.Update(contender.finish != nullptr
                    ? contender.finish()
                    : bench.machine.WaitFor(contender.stream));
  if (!status.ok()) return status;
  const absl::StatusOr<double> seconds = bench.timing.Seconds();
  if (!seconds.ok()) return seconds;
  return *seconds / num_calls;
}

}  // namespace

absl::Status TakeTurns(const BenchMachine& bench, int num_calls,
                       std::vector<Contender>& contenders) {
  for (int round = 0; round < bench.scale.rounds; ++round) {
    for (Contender& contender : contenders) {
      const absl::StatusOr<double> seconds =
          TakeTurn(bench, num_calls, contender);
      if (!seconds.ok()) {
        return absl::Status(
            seconds.status().code(),
            absl::StrCat(contender.name, ": ", seconds.status().message()));
      }
      if (round > 0) contender.seconds.push_back(*seconds);
    }
  }
  return absl::OkStatus();
}

std::string Aim::ToString() const {
  return absl::StrFormat("%.4g %s %s; aim: at %s %.4g %s", found, unit, what,
                         bound == Bound::kAtLeast ? "least" : "most", wanted,
                         unit);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace tutti
