#include "examples/train/step_watch.h"

#include <cstddef>
#include <mutex>

#include "absl/strings/str_format.h"

namespace train {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(100);

}  // namespace

StepWatch::StepWatch(int num_devices, bool is_terminal, tutti::Clock* clock,
                     std::FILE* out)
    : is_terminal_(is_terminal), clock_(clock), out_(out), rows_(num_devices) {}

void StepWatch::Add(int device, const StepReport& report) {
  const std::lock_guard<std::mutex> lock(mu_);
  Row& row = rows_[device];
  ++row.step;
  row.latest = report;
  if (!is_terminal_) {
    absl::FPrintF(out_, "device %d step %d loss %.6f gradient_norm %.6f\n",
                  device, row.step, report.loss, report.gradient_norm);
    return;
  }
  const absl::Time now = clock_->Now();
  if (now < next_paint_) return;
  next_paint_ = now + kPeriod;
  Paint();
}

void StepWatch::Clear() {
  const std::lock_guard<std::mutex> lock(mu_);
  Erase();
}

void StepWatch::Finish() {
  const std::lock_guard<std::mutex> lock(mu_);
  if (is_terminal_) Paint();
  is_painted_ = false;
}

// Moves up to the heading, and clears everything from there on.
void StepWatch::Erase() {
  if (is_painted_) absl::FPrintF(out_, "\x1b[%dA\x1b[J", rows_.size() + 1);
  is_painted_ = false;
}

void StepWatch::Paint() {
  Erase();
  absl::FPrintF(out_, "  device    step       loss  gradient norm\n");
  for (size_t device = 0; device < rows_.size(); ++device) {
    const Row& row = rows_[device];
    absl::FPrintF(out_, "%8d  %6d  %9.6f  %13.6f\n", device, row.step,
                  row.latest.loss, row.latest.gradient_norm);
  }
  std::fflush(out_);
  is_painted_ = true;
}

}  // namespace train
