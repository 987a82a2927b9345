// SPDX-License-Identifier: Apache-2.0
// Component libraries in graphs, run by the host.
#include <fstream>

#include <gtest/gtest.h>

#include "child.hpp"

namespace {

struct Run {
    int status;
    std::string output;

    [[nodiscard]] std::size_t count(const std::string& words) const {
        std::size_t n = 0;
        for (auto at = output.find(words); at != std::string::npos; at = output.find(words, at + 1))
            ++n;
        return n;
    }
};

Run host(const std::vector<std::string>& arguments, const std::string& program = SDK_HOST,
         std::vector<std::string> environment = {}) {
    const test::Directory directory;
    std::vector<std::string> command{program};
    command.insert(command.end(), arguments.begin(), arguments.end());
    environment.push_back("DRIVELINE_DOMAIN_DIR=" + directory / "domain");
    test::Child child(command, environment);
    Run run{0, child.output()};
    run.status = child.status;
    return run;
}

Run run_graph(const std::string& components, const std::string& program = SDK_HOST) {
    const test::Directory directory;
    const std::string file = directory / "graph.yaml";
    std::ofstream(file) << "driveline: 1\ntopics:\n  camera/image: {max_payload: 4 "
                           "KiB}\nmodules:\n  all:\n    components:\n"
                        << components;
    return host({"run", "--graph", file, "--module", "all"}, program);
}

const std::string library = std::string("        library: ") + SDK_COMPONENTS + "\n";

std::string pipeline(const std::string& lane_parameters) {
    return "      camera:\n" + library +
           "        class: Camera\n"
           "        trigger: {kind: timer, period_ms: 10}\n"
           "        parameters: {count: 6}\n"
           "        outputs: {image: camera/image}\n"
           "      lane:\n" +
           library + "        class: Lane\n        parameters: {" + lane_parameters +
           "}\n"
           "        inputs: {image: camera/image}\n"
           "        outputs: {detections: lane/detections, plan: lane/plan}\n"
           "      sink:\n" +
           library +
           "        class: Sink\n"
           "        trigger: {kind: all_latest, on: detections}\n"
           "        inputs: {detections: lane/detections, image: camera/image}\n"
           "      watcher:\n        library: " SDK_MORE_COMPONENTS
           "\n        class: Watcher\n        inputs: {detections: lane/detections, plan: "
           "lane/plan}\n"
           "        trigger: {kind: all_latest, on: plan}\n";
}

TEST(Components, AreDescribedWithPortsAndParameters) {
    const auto run = host({"describe", SDK_COMPONENTS});
    ASSERT_EQ(run.status, 0) << run.output;
    for (const char* words :
         {R"("name":"Camera","doc":"publishes images")", R"("name":"Lane")", R"("name":"Sink")",
          R"("name":"Quiet")", R"("name":"count","default":10)",
          R"("name":"driveline.msgs.Detections2D")", R"("encoding":"cdr")",
          R"("name":"scale","default":1.0)", R"("doc":"the picture")"}) {
        EXPECT_EQ(run.count(words) > 0, true) << words << " is missing in " << run.output;
    }
}

TEST(Components, PassMessagesByPointerWithTheirOriginsAndReadOtherInputs) {
    const auto run = run_graph(pipeline("text: hello, scale: 2"));
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count("initialised as lane with hello 2"), 1u) << run.output;
    // Frame n has pixels of value n. Lane publishes n + 1000 × the value of the first pixel.
    for (int frame = 0; frame < 6; ++frame) {
        EXPECT_EQ(run.count("detections of frame " + std::to_string(frame * 1001) + " "), 1u)
            << "frame " << frame << " in\n"
            << run.output;
    }
    EXPECT_GE(run.count(" origins 1 by pointer with image"), 6u) << run.output;
    EXPECT_GE(run.count(" by pointer, detections by pointer"), 6u) << "across libraries:\n"
                                                                   << run.output;
    EXPECT_EQ(run.count("by value"), 0u) << run.output;
    EXPECT_EQ(run.count("shut down"), 1u) << run.output;
    EXPECT_EQ(run.count("lane: as noted"), 1u) << run.output;
    EXPECT_EQ(run.count("lane: lane: "), 0u) << "the name of the component is printed twice:\n"
                                             << run.output;
}

TEST(Components, ThatThrowAreReportedWithTopicAndSequenceAndContinue) {
    const auto run = run_graph(pipeline("throw_on: 3"));
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count("component 'lane' failed on sample 4 of 'camera/image': Lane: on_trigger "
                        "threw std::runtime_error: no road in sight"),
              1u)
        << run.output;
    EXPECT_EQ(run.count("detections of frame 3003 "), 0u) << run.output;
    EXPECT_EQ(run.count("detections of frame 4004 "), 1u) << run.output;
    EXPECT_EQ(
        run.count(
            "component 'lane' failed: Lane: timer threw std::runtime_error: the timer throws"),
        1u)
        << run.output;
}

TEST(Components, ThatThrowUnreadableErrorsAreReportedAndContinue) {
    const auto run = run_graph("      odd:\n" + library + "        class: Odd\n");
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count("Odd: timer threw char const*: (null)"), 1u) << run.output;
    EXPECT_EQ(run.count("Odd: timer threw decltype(nullptr): (null)"), 1u) << run.output;
    EXPECT_EQ(run.count("WithoutText: (null)"), 1u) << run.output;
    EXPECT_EQ(run.count("Odd: timer failed: cut\\0off"), 1u) << run.output;
    EXPECT_EQ(run.count("left\uFFFDrightzero\\0byte"), 1u) << run.output;
    EXPECT_EQ(run.count("\u202e"), 0u) << "a character reverses the text direction";
}

// Runs under the launcher, which must not report that the component called exit().
TEST(Components, WhoseInitFailsWithMegabytesOfTextEndTheRunWithTheReason) {
    const test::Directory directory;
    const std::string file = directory / "graph.yaml";
    std::ofstream(file) << "driveline: 1\nmodules:\n  all:\n    components:\n      odd:\n"
                        << library << "        class: Odd\n"
                        << "        parameters: {init_error: 3145728}\n";
    const auto run =
        host({"run", file}, DRIVELINE_TOOL, {std::string("DRIVELINE_HOST=") + SDK_HOST});
    // The last line on standard error. The module's own output is not cut.
    const std::string error = run.output.substr(run.output.rfind("error: "));
    EXPECT_EQ(run.status, 4) << error;
    const std::string reason =
        "error: failed: module 'all' exited with code 1 while starting: component 'odd' cannot "
        "start: Odd: init failed: eeeeeeee";
    EXPECT_EQ(error.substr(0, reason.size()), reason);
    EXPECT_NE(error.find("eeeeeeee… (cut; 31457"), std::string::npos) << error;
    EXPECT_EQ(error.find("exit()"), std::string::npos) << error;
    EXPECT_LT(error.size(), 20'000u);
}

// Runs with and without the log: the refusal is reported once in both cases.
TEST(Components, RunWithARefusedScheduleWhichIsReportedOnce) {
    const test::Directory directory;
    const std::string file = directory / "graph.yaml";
    std::ofstream(file) << "driveline: 1\nmodules:\n  all:\n"
                        << "    executors: {main: {schedule: {cpus: [1000]}}}\n"
                        << "    components:\n      odd:\n"
                        << library << "        class: Odd\n";
    for (const char* log : {"DRIVELINE_LOG=warn", "DRIVELINE_LOG=off"}) {
        const auto run = host({"run", "--graph", file, "--module", "all"}, SDK_HOST, {log});
        EXPECT_EQ(run.status, 0) << run.output;
        EXPECT_EQ(run.count("thread main/0: "), 1u) << log << "\n" << run.output;
        EXPECT_EQ(run.count("refused: CPUs [1000]: "), 1u) << log << "\n" << run.output;
    }
}

TEST(Libraries, WhoseInitialisersThrowEndTheHostWithAnError) {
    const auto run = host({"describe", SDK_THROWING_COMPONENTS});
    EXPECT_EQ(run.status, 1) << run.output;
    EXPECT_EQ(run.count("threw an exception; look for global objects"), 1u) << run.output;
    EXPECT_EQ(run.count("aborting"), 0u) << run.output;
}

TEST(Libraries, ShareMessagesOfASeparateLibrary) {
    const auto run = host({"load", SDK_OWN_A, SDK_OWN_B});
    EXPECT_EQ(run.status, 0) << run.output;
}

TEST(Libraries, WithTheCodeOfOneProtoFileAreRefusedInOneProcess) {
    EXPECT_EQ(host({"load", SDK_TWICE_A}).status, 0);
    const auto run = host({"load", SDK_TWICE_A, SDK_TWICE_B});
    EXPECT_EQ(run.status, 1) << run.output;
    EXPECT_EQ(run.count("loading "), 2u) << run.output;
    EXPECT_EQ(run.count("File already exists in database: own.proto"), 1u) << run.output;
    EXPECT_EQ(run.count("the code of one .proto file in two libraries"), 1u) << run.output;
}

Run command(const std::vector<std::string>& arguments) {
    const test::Directory directory;
    std::vector<std::string> words{DRIVELINE_TOOL};
    words.insert(words.end(), arguments.begin(), arguments.end());
    test::Child child(words,
                      {"DRIVELINE_DOMAIN_DIR=" + directory / "domain", "DRIVELINE_HOST=" SDK_HOST});
    Run run{0, child.output()};
    run.status = child.status;
    return run;
}

// Writes a graph file with one component of each library in one module.
std::string graph_of_both(const test::Directory& directory, const std::string& a,
                          const std::string& b) {
    std::ofstream(directory / "graph.yaml")
        << "driveline: 1\nmodules:\n  both:\n    components:\n"
        << "      a: {library: " << a << ", class: OwnA, inputs: {in: y}, outputs: {out: x}, "
        << "trigger: {kind: timer, period_ms: 100}}\n"
        << "      b: {library: " << b << ", class: OwnB, inputs: {in: x}, outputs: {out: y}}\n";
    return directory / "graph.yaml";
}

TEST(Libraries, WithTheCodeOfOneProtoFileAreReportedByValidateAndRun) {
    const test::Directory directory;
    const auto right = command({"validate", graph_of_both(directory, SDK_OWN_A, SDK_OWN_B)});
    EXPECT_EQ(right.status, 0) << right.output;

    const auto file = graph_of_both(directory, SDK_TWICE_A, SDK_TWICE_B);
    for (const auto& words : {std::vector<std::string>{"validate", file},
                              {"run", file, "--report", directory / "report"}}) {
        const auto run = command(words);
        EXPECT_EQ(run.status, 3) << run.output;
        EXPECT_EQ(run.count("the libraries `libsdk_twice_a.so` and `libsdk_twice_b.so` of the "
                            "module `both` cannot be loaded into one process: both contain the "
                            "code of `own.proto`"),
                  1u)
            << run.output;
        EXPECT_EQ(run.count("driveline_add_messages(my_msgs own.proto)"), 1u) << run.output;
        EXPECT_EQ(run.count("abort") + run.count("SIGABRT"), 0u) << run.output;
    }
}

TEST(Components, ConversionsAreCommunicationAndNotComputation) {
    const test::Directory directory;
    const std::string file = directory / "graph.yaml";
    // Two processes, so that messages are decoded and encoded.
    std::ofstream(file)
        << "driveline: 1\ntopics:\n  there: {reach: host}\n  back: {reach: host}\nmodules:\n  "
           "one:\n    components:\n"
        << "      source:\n"
        << library
        << "        class: SlowSource\n"
           "        trigger: {kind: timer, period_ms: 10}\n"
           "        inputs: {back: back}\n"
           "        outputs: {out: there}\n"
           "  two:\n    components:\n      relay:\n"
        << library
        << "        class: SlowRelay\n"
           "        inputs: {in: there}\n"
           "        outputs: {before: before, out: back, after: after}\n"
           "      judge:\n"
        << library << "        class: SlowJudge\n        inputs: {before: before, after: after}\n";
    const std::vector<std::string> domain{"DRIVELINE_DOMAIN_DIR=" + directory / "domain"};
    test::Child one({SDK_HOST, "run", "--graph", file, "--module", "one"}, domain);
    test::Child two({SDK_HOST, "run", "--graph", file, "--module", "two"}, domain);
    const struct Run run { 0, two.output() };
    EXPECT_EQ(two.status, 0) << run.output;
    one.signal(SIGTERM);
    EXPECT_EQ(one.wait(), 0);
    for (const char* when : {"before", "after"}) {
        EXPECT_GE(run.count(std::string(when) +
                            ": converting was communication, working was computation"),
                  1u)
            << run.output;
    }
    EXPECT_EQ(run.count("COMMUNICATION") + run.count("COMPUTATION"), 0u) << run.output;
}

TEST(Components, AreCalledWithMissedDeadlinesOfBothEnds) {
    const test::Directory directory;
    const std::string file = directory / "graph.yaml";
    std::ofstream(file) << "driveline: 1\ntopics:\n  late: {qos: {deadline_ms: 1}}\nmodules:\n  "
                           "all:\n    components:\n      source:\n"
                        << library
                        << "        class: LateSource\n        outputs: {out: late}\n      sink:\n"
                        << library << "        class: LateSink\n        inputs: {in: late}\n";
    const auto run = host({"run", "--graph", file, "--module", "all"});
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_GE(run.count("both ends were notified"), 1u) << run.output;
    EXPECT_EQ(run.count("disagree"), 0u) << run.output;
}

TEST(Components, ThatReturnAnErrorAreReportedWithTopicAndSequence) {
    const auto run = run_graph(pipeline("fail_on: 2"));
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count("component 'lane' failed on sample 3 of 'camera/image': Lane: on_trigger "
                        "failed: no line in sight"),
              1u)
        << run.output;
    EXPECT_EQ(run.count("component 'lane' failed: Lane: timer failed: the timer fails"), 1u)
        << run.output;
    EXPECT_EQ(run.count("detections of frame 2002 "), 0u) << run.output;
    EXPECT_EQ(run.count("detections of frame 3003 "), 1u) << run.output;
}

TEST(Components, WhoseInitFailsEndTheModuleWithTheReason) {
    const auto run = run_graph(pipeline("refuse: true"));
    EXPECT_NE(run.status, 0);
    EXPECT_EQ(
        run.count("component 'lane' cannot start: Lane: init failed: the model 'x' is missing"), 1u)
        << run.output;
    EXPECT_EQ(run.count("detections of frame"), 0u) << run.output;
}

TEST(Components, ClassesOfOneNameInTwoLibrariesAreTwoClasses) {
    const auto run = run_graph("      one:\n" + library +
                               "        class: Camera\n"
                               "        trigger: {kind: timer, period_ms: 1}\n"
                               "        parameters: {count: 1}\n"
                               "        outputs: {image: camera/image}\n"
                               "      two:\n        library: " SDK_MORE_COMPONENTS
                               "\n        class: Camera\n"
                               "        trigger: {kind: timer, period_ms: 1}\n"
                               "        parameters: {other: no}\n");
    EXPECT_EQ(run.count("error"), 0u) << run.output;
    EXPECT_EQ(run.status, 0) << run.output;
}

TEST(Components, UnusableLibrariesAreExplained) {
    const auto refused = [](const std::string& path, const std::vector<std::string>& words) {
        const auto run = host({"describe", path});
        EXPECT_NE(run.status, 0);
        for (const auto& w : words)
            EXPECT_EQ(run.count(w) > 0, true) << "no '" << w << "' in: " << run.output;
    };
    refused("/nowhere/libnothing.so",
            {"/nowhere/libnothing.so", "cannot be loaded", "No such file"});
    refused(SDK_NO_COMPONENTS, {SDK_NO_COMPONENTS, "DRIVELINE_COMPONENT"});
    refused(SDK_OLD_COMPONENTS, {SDK_OLD_COMPONENTS, "component ABI 42", "rebuild"});
    refused(SDK_HOST, {SDK_HOST, "cannot be loaded"});
    refused(SDK_DAMAGED_COMPONENTS, {SDK_DAMAGED_COMPONENTS, "class->size = 64", "at least 72"});
}

TEST(Components, OfLaterReleasesAreUsedWithTheKnownFields) {
    const auto run = host({"describe", SDK_FUTURE_COMPONENTS});
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count(R"("name":"Future")"), 1u) << run.output;
    EXPECT_EQ(run.count(R"("name":"answer","default":42)"), 1u) << run.output;
}

TEST(Components, BuiltWithOtherProtobufHeadersGetBytes) {
    const auto run =
        run_graph(pipeline("text: hello") +
                  "      stranger:\n        library: " SDK_STRANGER_COMPONENTS
                  "\n        class: Stranger\n        inputs: {detections: lane/detections}\n");
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count("[stranger] detections of frame 5005 came as bytes"), 1u) << run.output;
    EXPECT_EQ(run.count("came as a pointer"), 0u) << run.output;
    EXPECT_GE(run.count(" by pointer, detections by pointer"), 6u)
        << "other components do not get pointers any more:\n"
        << run.output;
}

TEST(Components, BuiltWithAnotherObjectAreRefusedWithTheReason) {
    const auto run = run_graph(pipeline("text: hello") +
                               "      stranger:\n        library: " SDK_STRANGER_COMPONENTS
                               "\n        class: PlanReader\n        inputs: {plan: lane/plan}\n");
    EXPECT_GE(run.count("lane/plan"), 1u) << run.output;
    EXPECT_GE(run.count("size 32 align 8"), 1u) << run.output;
    EXPECT_GE(run.count("size 40 align 8"), 1u) << run.output;
    EXPECT_EQ(run.count("A PLAN WAS READ"), 0u) << run.output;
}

TEST(Components, AUnknownClassOrParameterIsExplained) {
    const auto run =
        run_graph("      camera:\n" + library +
                  "        class: Camra\n        trigger: {kind: timer, period_ms: 10}\n");
    EXPECT_NE(run.status, 0);
    EXPECT_EQ(run.count("Camra") > 0 && run.count("Camera") > 0, true) << run.output;
}

#ifndef SDK_SANITIZED
TEST(Components, AndHostShareOneCore) {
    const auto run =
        run_graph("      census:\n" + library +
                      "        class: Census\n        trigger: {kind: timer, period_ms: 10}\n",
                  DRIVELINE_HOST);
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.count("cores in this process: 1"), 1u) << run.output;
}
#endif

}  // namespace
