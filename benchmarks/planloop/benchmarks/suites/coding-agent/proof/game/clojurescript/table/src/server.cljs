(ns server
  (:require ["fs" :refer [createReadStream]]
            ["http" :refer [createServer]]))

(-> (createServer
      (fn [_ response]
        (.setHeader response "content-type" "text/html; charset=utf-8")
        (.pipe (createReadStream "../public/index.html") response)))
    (.listen (js/parseInt js/process.env.PORT 10) "0.0.0.0"))
