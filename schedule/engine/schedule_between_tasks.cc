#include "schedule/engine/schedule_between_tasks.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "schedule/find_part.h"
#include "schedule/first_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindInterTaskLevel(
    absl::string_view name) {
  auto factory = FindPart(name);
  if (!factory.ok()) return factory;
  const ImplementationTraits& traits = (*factory)->traits();
  const bool reduces =
      absl::c_linear_search(traits.collectives, CollectiveType::kAllReduce);
  const Algorithm* const algorithm = AlgorithmOf(**factory);
  if (!reduces || algorithm == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " is no schedule that all-reduces, as the stage "
                     "between processes has to be"));
  }
  RETURN_IF_ERROR(CheckFitsAsPart(name, traits));
  RETURN_IF_ERROR(CheckParts(algorithm->traits));
  return factory;
}

const ImplementationTraits& HybridFactory::traits() const {
  const auto factory = FindPart(between_);
  const Algorithm* const between =
      factory.ok() ? AlgorithmOf(**factory) : nullptr;
  if (between == nullptr) return CollectiveFactory::traits();
  std::call_once(once_, [&] {
    traits_ = CollectiveFactory::traits();
    traits_.supports_subdivisions = between->traits.supports_subdivisions;
    traits_.rank_list = between->traits.rank_list;
  });
  return traits_;
}

std::unique_ptr<InterTaskLevel> HybridFactory::MakeBetween() const {
  return std::make_unique<ScheduleBetweenTasks>(between_, chunk_bytes_);
}

absl::Status ScheduleBetweenTasks::Prepare(const CollectiveContext& first,
                                           const Tensor& input) {
  absl::Status status = MakeReductions(*first.params);
  for (const Reduction* reduction : {&whole_, &rest_}) {
    if (!status.ok()) return status;
    if (reduction->implementation == nullptr) continue;
    CollectiveContext context;
    context.params = &reduction->params;
    context.executor = first.executor;
    context.device = first.device;
    context.input = input;
    context.output = first.output;
    status = reduction->implementation->InitializeCollectiveContext(&context);
  }
  return status;
}

absl::Status ScheduleBetweenTasks::MakeReductions(
    const CollectiveParams& whole) {
  const CollInstanceParams& instance = *whole.instance;
  const auto element_bytes = static_cast<int64_t>(SizeOf(instance.dtype));
  const int64_t most = std::max<int64_t>(chunk_bytes_ / element_bytes, 1);
  num_elements_ = instance.shape.num_elements();
  chunk_elements_ = std::clamp<int64_t>(num_elements_, 1, most);
  auto reduction = MakeReduction(whole, chunk_elements_);
  if (!reduction.ok()) return reduction.status();
  whole_ = *std::move(reduction);
  const int64_t num_rest = num_elements_ % chunk_elements_;
  if (num_rest == 0) return absl::OkStatus();
  reduction = MakeReduction(whole, num_rest);
  if (!reduction.ok()) return reduction.status();
  rest_ = *std::move(reduction);
  return absl::OkStatus();
}

absl::StatusOr<ScheduleBetweenTasks::Reduction>
ScheduleBetweenTasks::MakeReduction(const CollectiveParams& whole,
                                    int64_t num_elements) const {
  ASSIGN_OR_RETURN(const auto factory, FindInterTaskLevel(name_));
  Reduction reduction = {.params = AmongFirstMembers(whole, num_elements),
                         .implementation = factory->Create()};
  auto instance =
      std::make_shared<CollInstanceParams>(*reduction.params.instance);
  instance->impl_details.implementation = name_;
  RETURN_IF_ERROR(reduction.implementation->InitializeCollectiveParams(
      *reduction.params.group, instance.get()));
  reduction.params.instance = std::move(instance);
  return reduction;
}

Range ScheduleBetweenTasks::ChunkAt(int64_t index) const {
  const int64_t begin = index * chunk_elements_;
  return {begin, std::min(chunk_elements_, num_elements_ - begin)};
}

void ScheduleBetweenTasks::Run(int64_t index, CollectiveContext& context,
                               StatusCallback done) const {
  const Reduction& reduction =
      ChunkAt(index).size == chunk_elements_ ? whole_ : rest_;
  context.params = &reduction.params;
  // Other tasks may be one chunk ahead, and never two: the end of a chunk needs
  // data from all tasks. Alternating tags keep a transport that learns late of
  // a transfer's end from finding its key in use again.
  context.first_tag = index % 2 == 0 ? 0 : kNumTags;
  absl::Status status =
      reduction.implementation->InitializeCollectiveContext(&context);
  if (!status.ok()) return std::move(done)(std::move(status));
  reduction.implementation->Run(context, std::move(done));
}

}  // namespace tutti
