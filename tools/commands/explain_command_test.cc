#include "tools/commands/explain_command.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/named_only.h"

namespace tutti {
namespace explain_command_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

double BytesAsSeconds(const CostQuery& query) {
  return static_cast<double>(query.bytes);
}
double TwelveSeconds(const CostQuery&) { return 12; }
double OneMicrosecond(const CostQuery&) { return 1e-6; }

class ExplainCommandTest : public ::testing::Test {
 protected:
  ExplainCommandTest() {
    const std::vector<CollectiveType> reductions = {CollectiveType::kAllReduce};
    Register("Any",
             {.collectives = reductions, .cost_seconds = BytesAsSeconds});
    Register("Fixed",
             {.collectives = reductions, .cost_seconds = TwelveSeconds});
    Register("Fused", {.collectives = reductions,
                       .needs_one_process = true,
                       .cost_seconds = OneMicrosecond});
    Register("Gpu", {.collectives = reductions,
                     .device_types = {"GPU"},
                     .cost_seconds = OneMicrosecond});
    Register("Another", {.collectives = {CollectiveType::kBarrier},
                         .cost_seconds = OneMicrosecond});
    Register("Quiet", {.collectives = reductions});
    options_.collective.collective = "all_reduce";
    options_.layout = "2x2";
    options_.bytes = "16";
  }

  void Register(const std::string& name, ImplementationTraits traits) {
    ASSERT_THAT(registry_.Register(
                    name, std::make_shared<NamedOnly>(std::move(traits))),
                IsOk());
  }

  absl::Status Explain() {
    out_.str("");
    return ExplainChoice(options_, registry_, {out_, err_});
  }

  nlohmann::json ExplainInJson() {
    options_.json = true;
    EXPECT_THAT(Explain(), IsOk());
    return nlohmann::json::parse(out_.str());
  }

  CollectiveRegistry registry_;
  ExplainOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ExplainCommandTest, TheCheapestComeFirstAndThenWhatIsRuledOut) {
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_EQ(out_.str(),
            "all_reduce sum of 16 bytes (4 float32) on 2x2, 2 processes\n"
            "algorithm  predicted [us]  verdict\n"
            "Fixed          12000000.0  chosen\n"
            "Any            16000000.0\n"
            "Fused                   -  needs all members in one process\n"
            "Gpu                     -  runs on GPU, not on CPU\n"
            "Quiet                   -  runs only when named\n"
            "Another                 -  does not do all_reduce\n");
}

TEST_F(ExplainCommandTest, GpusHaveTheirOwn) {
  options_.choice.device_type = "GPU";
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("2 processes, GPU devices\n"));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Gpu");
  EXPECT_EQ(json["device_type"], "GPU");
}

TEST_F(ExplainCommandTest, SizeDecides) {
  EXPECT_EQ(ExplainInJson()["chosen"], "Fixed");
  options_.bytes = "8";
  EXPECT_EQ(ExplainInJson()["chosen"], "Any");
}

TEST_F(ExplainCommandTest, OneTaskIsOneProcessAndMoreAreIfToldSo) {
  options_.layout = "1x4";
  EXPECT_EQ(ExplainInJson()["chosen"], "Fused");
  options_.layout = "4x1";
  EXPECT_EQ(ExplainInJson()["chosen"], "Fixed");
  options_.one_process = true;
  EXPECT_EQ(ExplainInJson()["chosen"], "Fused");
}

TEST_F(ExplainCommandTest, UnderMpirunMessagesCostLessAndMpiCanServe) {
  Register("Mpi", {.collectives = {CollectiveType::kAllReduce},
                   .delegate = "MPI",
                   .cost_seconds = [](const CostQuery& query) {
                     return query.model.between.latency_seconds;
                   }});
  options_.layout = "2x1";
  auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Fixed");
  EXPECT_FALSE(json["mpi"]);
  EXPECT_EQ(json["process_latency_us"], 50);
  options_.mpi = true;
  json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Mpi");
  EXPECT_TRUE(json["mpi"]);
  EXPECT_EQ(json["process_latency_us"], 14);
  EXPECT_EQ(json["candidates"][0]["predicted_us"], 14);
  options_.json = false;
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("on 2x1, 2 processes under mpirun\n"));
}

TEST_F(ExplainCommandTest, ProcessesUnderMpirunMayShareProcessors) {
  options_.layout = "8x1";
  options_.mpi = true;
  const auto apart = ExplainInJson();
  EXPECT_TRUE(apart["processors"].is_null());
  options_.processors = 8;
  EXPECT_EQ(ExplainInJson(), apart);
  options_.processors = 2;
  const auto together = ExplainInJson();
  EXPECT_EQ(together["processors"], 2);
  EXPECT_GT(together["process_latency_us"], apart["process_latency_us"]);
}

TEST_F(ExplainCommandTest, TheNamedOneIsChosenIfItCanServe) {
  options_.algorithm = "Any";
  EXPECT_EQ(ExplainInJson()["chosen"], "Any");
  options_.algorithm = "Quiet";
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Quiet");
  EXPECT_EQ(json["candidates"][2]["name"], "Quiet");
  EXPECT_TRUE(json["candidates"][2]["predicted_us"].is_null());
  EXPECT_TRUE(json["candidates"][2]["ruled_out"].is_null());
}

TEST_F(ExplainCommandTest, ADemandForDeterminismRulesOut) {
  Register("Ordered", {.collectives = {CollectiveType::kAllReduce},
                       .determinism = Determinism::kByRankOrder,
                       .cost_seconds = [](const CostQuery&) { return 99.0; }});
  options_.choice.determinism = Determinism::kByRankOrder;
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("2 processes, determinism by rank order\n"),
                    HasSubstr("offers determinism \"fixed layout\"")));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Ordered");
  EXPECT_EQ(json["determinism"], "by rank order");
  EXPECT_EQ(json["candidates"][0]["determinism"], "by rank order");
}

TEST_F(ExplainCommandTest, TheRulesThatWereAskedAreShown) {
  options_.rules = std::make_shared<const SelectionRules>(SelectionRules{
      {{.min_bytes = 17, .implementation = "Fixed", .where = "r.json:2"},
       {.implementation = "Fused", .where = "r.json:3"},
       {.implementation = "Quiet", .where = "r.json:4"}}});
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("Quiet                   -  chosen\n"),
                    HasSubstr("r.json:3: Fused needs all members in one "
                              "process\n"
                              "r.json:4: Quiet is chosen by this rule\n")));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Quiet");
  ASSERT_EQ(json["rules"].size(), 2u);
  EXPECT_EQ(json["rules"][0]["where"], "r.json:3");
  EXPECT_EQ(json["rules"][1]["algorithm"], "Quiet");
  EXPECT_TRUE(json["rules"][1]["ruled_out"].is_null());
}

TEST_F(ExplainCommandTest, ANamedOneThatCannotServeFailsAndSaysWhy) {
  options_.algorithm = "Fused";
  const absl::Status status = Explain();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_EQ(status.message(),
            "Fused needs all members in one process; these can serve: Any, "
            "Fixed, Quiet");
  EXPECT_THAT(out_.str(), Not(HasSubstr("chosen")));
  EXPECT_THAT(out_.str(), HasSubstr("Fixed"));
}

TEST_F(ExplainCommandTest, WhereNoneCanServeAllSayWhy) {
  options_.collective.collective = "broadcast";
  const absl::Status status = Explain();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(out_.str(), HasSubstr("Any                     -  does not do"));
}

TEST_F(ExplainCommandTest, TheJsonHasTheQuestionAndTheModel) {
  options_.collective.collective = "all_reduce";
  options_.bytes = "18";
  const auto json = ExplainInJson();
  EXPECT_EQ(json["collective"], "all_reduce");
  EXPECT_EQ(json["layout"], "2x2");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["tasks"], 2);
  EXPECT_EQ(json["one_process"], false);
  EXPECT_EQ(json["bytes"], 16);  // Rounded to whole elements.
  EXPECT_EQ(json["count"], 4);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["reduction"], "sum");
  EXPECT_EQ(json["latency_us"], 1);
  EXPECT_EQ(json["bandwidth"], 5);
  EXPECT_EQ(json["process_latency_us"], 50);
  EXPECT_EQ(json["process_bandwidth"], 2.5);
  EXPECT_EQ(json["process_gap_us"], 40);
  EXPECT_EQ(json["candidates"].size(), 6u);
  EXPECT_EQ(json["candidates"][0]["predicted_us"], 12e6);
}

TEST_F(ExplainCommandTest, WithinOneProcessNoLinkLeadsOutOfIt) {
  options_.one_process = true;
  const auto json = ExplainInJson();
  EXPECT_EQ(json["latency_us"], 1);
  EXPECT_TRUE(json["process_latency_us"].is_null());
  EXPECT_TRUE(json["process_bandwidth"].is_null());
  EXPECT_TRUE(json["process_gap_us"].is_null());
}

TEST_F(ExplainCommandTest, ABarrierHasNoData) {
  options_.collective.collective = "barrier";
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("barrier on 2x2, 2 processes\n"));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["bytes"], 0);
  EXPECT_TRUE(json["dtype"].is_null());
}

TEST_F(ExplainCommandTest, WrongOptionsAreAWrongCommandLine) {
  ExplainOptions wrong[6];
  for (ExplainOptions& options : wrong) options = options_;
  wrong[0].layout = "8";
  wrong[1].bytes = "x";
  wrong[2].dtype = "float8";
  wrong[3].algorithm = "Fly";
  wrong[4].collective.collective = "fly";
  wrong[5].collective.reduction = "fly";
  for (const ExplainOptions& options : wrong) {
    options_ = options;
    EXPECT_EQ(ExitStatus(Explain()), 2);
    EXPECT_THAT(out_.str(), IsEmpty());
  }
}

}  // namespace explain_command_test
}  // namespace tutti
