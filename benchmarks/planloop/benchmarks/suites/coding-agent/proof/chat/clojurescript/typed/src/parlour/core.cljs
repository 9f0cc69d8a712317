(ns parlour.core
  (:require ["fs" :refer [createReadStream]]
            ["http" :as http]
            ["ws" :as ws]
            [room]))

(defn parsed [data]
  (try
    (let [{:keys [type body] :as said} (js->clj (js/JSON.parse data) :keywordize-keys true)]
      (when (and (= type "message") (string? body)) (select-keys said [:type :from :body])))
    (catch :default _ nil)))

(defn connected [socket]
  (let [client (fn [text] (when (= (.-readyState socket) 1) (.send socket text)))]
    (room/join client)
    (.on socket "message"
         (fn [data]
           (when-let [said (parsed (str data))]
             (room/say client (js/JSON.stringify (clj->js said))))))
    (.on socket "error" js/console.error)
    (.on socket "close" #(room/leave client))))

(defn -main []
  (let [sockets (ws/WebSocketServer. #js {:noServer true})
        server (http/createServer
                 (fn [_ response]
                   (.writeHead response 200 #js {"content-type" "text/html"})
                   (.pipe (createReadStream "static/index.html") response)))]
    (.on server "upgrade"
         (fn [request stream head] (.handleUpgrade sockets request stream head connected)))
    (.listen server (js/Number (.. js/process -env -PORT)))))
