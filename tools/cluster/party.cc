#include "tools/cluster/party.h"

#include <utility>

#include "tutti/environment.h"

namespace tutti {
namespace {

class PartyOfOneProcess : public Party {
 public:
  PartyOfOneProcess(std::unique_ptr<LocalGroup> group,
                    std::shared_ptr<const SelectionRules> rules)
      : group_(std::move(group)), rules_(std::move(rules)) {}

  int num_ranks() const override { return num_local(); }
  int first_rank() const override { return 0; }
  const std::vector<Device*>& devices() const override {
    return group_->devices();
  }
  CollectiveExecutorMgr& manager() override { return group_->manager(); }
  SelectionPolicy policy() const override { return {.rules = rules_}; }
  bool reports() const override { return true; }
  absl::Status Align() override { return absl::OkStatus(); }
  absl::Status Agree(const absl::Status& mine) override { return mine; }
  absl::Status Combine(ReductionKind /*kind*/,
                       absl::Span<int64_t> /*numbers*/) override {
    return absl::OkStatus();
  }
  absl::Status Leave(const absl::Status& outcome) override { return outcome; }

 private:
  const std::unique_ptr<LocalGroup> group_;
  const std::shared_ptr<const SelectionRules> rules_;
};

}  // namespace

PartyFactory LocalParty(const Environment& environment,
                        std::shared_ptr<const SelectionRules> rules) {
  return [environment, rules = std::move(rules)](
             int num_ranks,
             int num_tasks) -> absl::StatusOr<std::unique_ptr<Party>> {
    auto group = LocalGroup::Create(environment, num_tasks,
                                    num_ranks / num_tasks, rules);
    if (!group.ok()) return group.status();
    return std::make_unique<PartyOfOneProcess>(*std::move(group), rules);
  };
}

absl::Status RunCalls(Party* party, int64_t step_id,
                      absl::Span<CollectiveArgs> calls) {
  const auto executor = party->manager().FindOrCreate(step_id);
  std::vector<absl::Status> statuses(calls.size());
  BlockingCounter pending(static_cast<int>(calls.size()));
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].device = party->devices()[i];
    executor->ExecuteAsync(calls[i], [&, i](absl::Status status) {
      statuses[i] = std::move(status);
      pending.DecrementCount();
    });
  }
  pending.Wait();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tutti
