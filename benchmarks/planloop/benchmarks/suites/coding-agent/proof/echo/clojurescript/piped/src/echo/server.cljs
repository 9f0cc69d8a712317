(ns echo.server
  (:require ["http" :refer [createServer]]))

(def routes
  {["POST" "/echo"] (fn [req res]
                      (when-let [type (aget (.-headers req) "content-type")]
                        (.setHeader res "Content-Type" type))
                      (.pipe req res))
   ["GET" "/"] (fn [_ res]
                 (.setHeader res "Content-Type" "text/html; charset=utf-8")
                 (.end res "<!doctype html><title>echo</title><h1>Up and running</h1>"))})

(defn missing [_ res]
  (set! (.-statusCode res) 404)
  (.end res "{\"error\": \"no such thing\"}"))

(defn -main []
  (-> (createServer (fn [req res]
                      (let [path (.-pathname (js/URL. (.-url req) "http://localhost"))]
                        ((get routes [(.-method req) path] missing) req res))))
      (.listen (js/parseInt (.. js/process -env -PORT)) "0.0.0.0")))
