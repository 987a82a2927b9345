// SPDX-License-Identifier: Apache-2.0
// SceneLog: writes every scene as one line of JSON, for tests and for reading in a text editor.
#include <fstream>
#include <string>

#include <google/protobuf/util/json_util.h>

#include "driveline/driveline.hpp"
#include "messages.hpp"

namespace comp {

class SceneLog : public driveline::Component {
    driveline::Input<msgs::FusedScene> scene_{*this, "scene", "objects and lanes"};
    driveline::Parameter<std::string> output_{*this, "output", "scenes.jsonl", "file to write"};

    driveline::Status init() override {
        file_.open(*output_, std::ios::trunc);
        if (!file_)
            return driveline::Error{"cannot write " + *output_ +
                                    ": check that its folder exists and that you may write to it"};
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto scene = scene_.sample();
        if (!scene) return {};
        line_.clear();
        if (!google::protobuf::util::MessageToJsonString(**scene, &line_).ok())
            return driveline::Error{"the scene has no JSON form"};
        if (!(file_ << line_ << '\n'))
            return driveline::Error{"cannot write " + *output_ + ": is the disk full?"};
        return {};
    }

    void shutdown() override { file_.close(); }

    std::ofstream file_;
    std::string line_;
};
DRIVELINE_COMPONENT(SceneLog, "writes every scene as a line of JSON");

}  // namespace comp
